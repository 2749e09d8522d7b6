"""The commands of studies."""

from __future__ import annotations

from typing import Final

from refaug.cli.shared.command_place import CommandPlace

STUDIES: Final = CommandPlace(
    at="refaug.extras.studies.commands.studies:app",
    help="Studies with people: protocols, invitations and progress, power, figures and files.",
    inner={
        "new": "refaug.extras.studies.commands.stored_studies:new_command",
        "list": "refaug.extras.studies.commands.stored_studies:list_command",
        "show": "refaug.extras.studies.commands.stored_studies:show_command",
        "pilot": "refaug.extras.studies.commands.stored_studies:pilot_command",
        "open": "refaug.extras.studies.commands.stored_studies:open_command",
        "pause": "refaug.extras.studies.commands.stored_studies:pause_command",
        "close": "refaug.extras.studies.commands.stored_studies:close_command",
        "invite": "refaug.extras.studies.commands.stored_studies:invite_command",
        "progress": "refaug.extras.studies.commands.stored_studies:progress_command",
        "tasks": "refaug.extras.studies.commands.stored_studies:tasks_command",
        "resume": "refaug.extras.studies.commands.stored_studies:resume_command",
        "erase": "refaug.extras.studies.commands.stored_studies:erase_command",
        "report": "refaug.extras.studies.commands.report:report_command",
        "export": "refaug.extras.studies.commands.study_files:export_command",
        "import": "refaug.extras.studies.commands.study_files:import_command",
        "power": "refaug.extras.studies.commands.power:power_command",
        "simulate": "refaug.extras.studies.commands.simulate:simulate_command",
    },
)
