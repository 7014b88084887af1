"""The result as Markdown."""

from __future__ import annotations

from bench_tools import markdown_table

from assign_add_parts.setting import BATCH, COMPARED_STEPS, Row


def render(result: Row) -> str:
    """The result as Markdown: the ways, the training, the floor, the profile, and the machine."""
    settings, machine, rates = result["settings"], result["machine"], result["rates"]
    first = markdown_table(
        ("way", "ms a step", "steps a CPU second", "times ours", f"losses differ, {COMPARED_STEPS} steps in float64"),
        [
            (
                row["way"].replace("TransformerLens", f"TransformerLens {row['version']}"),
                f"{row['step_milliseconds']:.2f}",
                f"{row['steps_a_second']:.1f}",
                f"{row['times_ours']:.1f}" + (f" (mark {row['mark']:.0f})" if row["mark"] else ""),
                "" if row["loss_difference"] is None else f"{row['loss_difference']:.0e}",
            )
            for row in result["ways"]
        ],
    )
    text = (
        f"AssignAdd, {settings['length']} tokens, batch {BATCH}, two layers of width {settings['width']}, one thread, CPU time; "
        f"median of {settings['rounds']} rounds.\n\n{first}\n"
    )
    if not settings["transformerlens"]:
        text += "\nTransformerLens was not measured: no environment that has it was given (`--with-transformerlens PYTHON`).\n"
    if result["quick"]:
        second = markdown_table(
            (
                "training, settings of `quick`",
                "steps to .99 held",
                "CPU s to .99 held",
                "steps",
                "CPU s",
                "lowest held at the end",
            ),
            [
                (
                    f"seed {row['seed']}",
                    "not reached" if row["steps_to_goal"] is None else str(row["steps_to_goal"]),
                    "" if row["steps_to_goal"] is None else f"{row['cpu_seconds_to_goal']:.1f}",
                    str(row["steps"]),
                    f"{row['cpu_seconds']:.1f}",
                    f"{row['final_accuracy']:.3f}",
                )
                for row in result["quick"]
            ],
        )
        held = "Held: sums of 0, 1 and 2 variables, each scored on 512 held-out sequences every 50 steps; that is included."
        text += f"\n{second}\n\n{held}\n"
    floor = rates["floor_milliseconds"]
    third = markdown_table(
        ("a folded step alone", "amount", "rate of this machine", "ms"),
        [
            (
                "matrix products",
                f"{rates['operations'] / 1e9:.3f} GFLOP",
                f"{rates['gigaflops']:.0f} GFLOP/s",
                f"{floor['products']:.2f}",
            ),
            (
                "look-ups and their gradients' additions",
                f"{rates['lookups'] / 1e6:.2f} M each",
                f"{1e-6 * rates['lookups'] / floor['look-ups and additions']:.2f} G/s of a pair",
                f"{floor['look-ups and additions']:.2f}",
            ),
            (
                "bytes of large arrays",
                f"{rates['bytes'] / 1e6:.1f} MB",
                f"{rates['gigabytes_a_second']:.0f} GB/s",
                f"{floor['bytes']:.2f}",
            ),
            ("floor", "", "", f"{sum(floor.values()):.2f}"),
            ("measured", "", f"share {rates['share']:.2f}", f"{rates['step_milliseconds']:.2f}"),
        ],
    )
    fourth = markdown_table(
        ("share of a folded step's time", ""), [(name, f"{share:.1%}") for name, share in rates["profile"].items()]
    )
    where = f"Measured on {machine['cpu']}, {machine['num_usable_cores']} cores, torch {machine['torch']}."
    return f"{text}\n{third}\n\n{fourth}\n\n{where}\n"
