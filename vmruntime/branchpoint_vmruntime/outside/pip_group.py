"""The group `pip`: the indexes that the host's own pip uses, and where their files are."""

import importlib
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from urllib.parse import urljoin

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside import pip_configuration
from branchpoint_vmruntime.outside.authority import server_trust
from branchpoint_vmruntime.outside.registries import Group, Place

NAME = "pip"
# Of a project that most indexes have, and whose page is short.
_SAMPLE = "wheel"
_TIMEOUT_S = 10.0
_MOST_BYTES = 8 << 20
_JSON = "application/vnd.pypi.simple.v1+json"
_HREF = re.compile(r"""<a\s[^>]*href=["']([^"'#]+)""", re.IGNORECASE)


def pip_group(environment: Mapping[str, str] = os.environ) -> Group:
    """The group as the host's configuration makes it; asks each index where its files are."""
    options = pip_configuration.read(environment)
    indexes, links = _named(options)
    if not indexes and not links:
        raise UsageError(
            "the host's pip is set up with no index that is reached by HTTP",
            hint="allow a host by name, or bring wheels in with %put",
        )
    notes: list[str] = []
    served = [place for index in indexes for place in _where_files_are(index, environment, notes)]
    every = (*indexes, *links, *served)
    return Group(
        name=NAME,
        rules=tuple(dict.fromkeys(place.rule for place in every)),
        environment=_environment(indexes, links, options),
        credentials=tuple(place.credential for place in (*indexes, *links) if place.credential),
        notes=tuple(notes),
    )


def pip_places(environment: Mapping[str, str] = os.environ) -> list[Place]:
    """What the host's configuration names, without asking anybody. UsageError without pip."""
    indexes, links = _named(pip_configuration.read(environment))
    return [*indexes, *links]


def _named(options: Mapping[str, str]) -> tuple[list[Place], list[Place]]:
    """Indexes, and pages of links."""
    return _places(_index_urls(options)), _places(options.get("find-links", "").split())


def _index_urls(options: Mapping[str, str]) -> list[str]:
    if options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        return []
    return [
        options.get("index-url") or default_index(),
        *options.get("extra-index-url", "").split(),
    ]


def default_index() -> str:
    """The index that pip itself uses if it is told of none; UsageError without pip."""
    try:
        module = importlib.import_module("pip._internal.models.index")
        return str(module.PyPI.simple_url)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            "the host has no pip that could tell its default index",
            hint="set index-url in pip's configuration on the host, or PIP_INDEX_URL",
        ) from error


def _places(urls: Sequence[str]) -> list[Place]:
    return [place for url in urls if (place := Place.of(url, NAME))]


def _where_files_are(index: Place, environment: Mapping[str, str], notes: list[str]) -> list[Place]:
    """Other places that an index sends those to who want a file."""
    page = f"{index.url.rstrip('/')}/{_SAMPLE}/"
    request = urllib.request.Request(page, headers={"Accept": f"{_JSON}, text/html;q=0.5"})
    if index.credential:
        request.add_header("Authorization", index.credential.basic.decode())
    trust = urllib.request.HTTPSHandler(context=server_trust(environment))
    opener = urllib.request.build_opener(trust)
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as reply:
            found, kind = reply.read(_MOST_BYTES), reply.headers.get_content_type()
            base = reply.url
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        notes.append(
            f"{index.rule.host} did not tell where its files are ({reason}); "
            "if they are on another host, allow it by name"
        )
        return []
    urls = {urljoin(base, url) for url in _links(found.decode(errors="replace"), kind)}
    places = _places([base, *sorted(urls)])
    # A page links the same few hosts thousands of times.
    return list({place.rule: place for place in places}.values())


def _links(page: str, kind: str) -> list[str]:
    if kind != _JSON:
        return _HREF.findall(page)
    try:
        return [str(file["url"]) for file in json.loads(page)["files"]]
    except (ValueError, KeyError, TypeError):
        return []


def _environment(
    indexes: Sequence[Place], links: Sequence[Place], options: Mapping[str, str]
) -> dict[str, str]:
    """How a machine's pip is told of the same places. They bear no credentials."""
    first, *more = indexes or [None]
    asked = {
        "PIP_INDEX_URL": first.url if first else "",
        "PIP_NO_INDEX": "" if first else "1",
        "PIP_EXTRA_INDEX_URL": " ".join(place.url for place in more if place),
        "PIP_FIND_LINKS": " ".join(place.url for place in links),
        "PIP_TRUSTED_HOST": " ".join(_trusted(indexes, links, options)),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return {name: value for name, value in asked.items() if value}


def _trusted(
    indexes: Sequence[Place], links: Sequence[Place], options: Mapping[str, str]
) -> list[str]:
    """What pip is to use although it is no HTTPS, or as the host's own pip is told to trust."""
    named = set(options.get("trusted-host", "").split())
    hosts = [
        place.rule.host
        for place in (*indexes, *links)
        if place.url.lower().startswith("http:") or place.rule.host in named
    ]
    return list(dict.fromkeys(hosts))
