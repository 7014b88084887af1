"""Numbers of block-list tasks that do not fit each other, refused before anything is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invariscope.errors import ConfigError

if TYPE_CHECKING:
    from invariscope.tasks.blocks.task import BlockTask

__all__ = ["check_numbers", "check_units"]


def check_numbers(task: BlockTask) -> None:
    """Refuse numbers out of range, and blocks that do not come out even.

    Raises:
        ConfigError: with the field.
    """
    numbers = {"num_blocks": 1, "burstiness": 1, "num_rare": 0, "num_common": 0}
    for name, least in numbers.items():
        if getattr(task, name) < least:
            raise ConfigError(f"{name} = {getattr(task, name)}", expected=f"{least} or more", do=f"raise {name}")
    for name in ("rare_share", "fresh_share"):
        if not 0 <= getattr(task, name) <= 1:
            raise ConfigError(f"{name} = {getattr(task, name)}", expected="a share from 0 to 1", do="give a share")
    for name, choices in (("contexts", ("homogeneous", "mixed")), ("burst", ("relevant", "all"))):
        if getattr(task, name) not in choices:
            raise ConfigError(f"{name} = {getattr(task, name)!r}", expected=" or ".join(choices), do="choose one")
    if task.rare_share < 1 and not task.num_common:
        raise ConfigError(
            f"rare_share = {task.rare_share} without common units", expected="num_common above 0", do="raise num_common"
        )
    if task.zipf < 0 or (task.symmetric and task.unit_width != 2):
        raise ConfigError(
            f"zipf = {task.zipf}, symmetric = {task.symmetric}",
            expected="an exponent of 0 or more, and a symmetric relation of pairs only",
            do="leave them out",
        )
    each = task.blocks_a_unit * (task.burstiness if task.burst == "all" else 1)
    extra = task.blocks_a_unit * (task.burstiness - 1) if task.burst == "relevant" else 0
    if task.num_blocks - extra < each or (task.num_blocks - extra) % each:
        raise ConfigError(
            f"num_blocks = {task.num_blocks} with {task.blocks_a_unit} blocks a unit, {task.burstiness} copies "
            f"of {task.burst} units",
            expected=f"{extra + each}, or a multiple of {each} more",
            do="change num_blocks",
        )


def check_units(task: BlockTask) -> None:
    """Refuse vocabularies that a sequence does not fit into.

    Raises:
        ConfigError: with what is missing.
    """
    for scene in task.scenes:
        for index, family in enumerate(task.families):
            if scene.num_units(index) > family.num:
                raise ConfigError(
                    f"{task.name} with {task.num_blocks} blocks, which needs {scene.num_units(index)} of {family.num} units "
                    f"{family.name!r}",
                    expected="as many as a sequence has",
                    do="raise num_rare or num_common, or lower num_blocks",
                )
