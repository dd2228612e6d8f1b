"""How long an example of a property test takes says nothing of whether the property holds."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
