"""What is asked of the notebook in front by scripts, where pressing is not what is tried."""

IN_FRONT = "window.jupyterapp.shell.currentWidget.context.path"
STATE_IN_FRONT = "window.jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus"
RUN_IN_FRONT = """code => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const last = content.model.cells.length;
    content.model.sharedModel.insertCell(last, { cell_type: 'code', source: code });
    content.activeCellIndex = last;
    return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
SAVE_IN_FRONT = "window.jupyterapp.commands.execute('docmanager:save')"
# The kernel of a copy is ended with it, so that the branch is given back.
ENDS_WITH_IT = (
    "window.jupyterapp.shell.currentWidget.sessionContext.kernelPreference.shutdownOnDispose"
)
CLOSE_IN_FRONT = "window.jupyterapp.commands.execute('application:close')"
