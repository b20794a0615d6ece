"""How help texts show flags: `--local`, without the type that typer writes after it, because a flag takes no value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A group whose help, and that of its commands, shows no type after a flag."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, TyperGroup):
            _untype([*command.params, command.get_help_option(ctx)])
        return command

    def get_params(self, ctx: Any) -> Any:
        """The group's own options."""
        params = super().get_params(ctx)
        _untype(params)
        return params


def _untype(params: list[Any]) -> None:
    for param in params:
        if getattr(param, "is_flag", False):
            vars(param)["display_type_rich"] = _no_type  # of this one object; a version of typer without it never looks


def _no_type(**_: object) -> None:
    """What typer shows nothing for."""
