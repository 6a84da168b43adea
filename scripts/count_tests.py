#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up JUnit files of ctest and pytest. The last line is `N passed, N failed, N skipped`.

usage: count_tests.py [--require-all] FILE...      exit code 1 when anything failed or nothing ran

--require-all is for CI: a skipped test failed, unless its reason is the machine's and not the
set-up's (MACHINE_REASONS). A missing FILE is a failure too: its test program did not finish.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

MACHINE_REASONS = re.compile(r"\b(GPU|root)\b")
TAIL_LINES = 40
CATCH_REASON = re.compile(r"^SKIPPED: (.*)$", re.MULTILINE)


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    """("passed" | "failed" | "skipped", why) of one <testcase>."""
    for tag in ("failure", "error"):
        if (node := case.find(tag)) is not None:
            return "failed", node.get("message") or ""
    if (node := case.find("skipped")) is not None:
        message = node.get("message") or ""
        if case.get("status") is None:  # pytest
            return "skipped", message
        if message.startswith("SKIP_"):  # our test main ended with 77 and printed its reason
            reasons = CATCH_REASON.findall(case.findtext("system-out") or "")
            return "skipped", "; ".join(reasons) or "no reason given"
        return "failed", message or "did not run"
    if case.get("status") not in (None, "run"):
        return "failed", f"status {case.get('status')}"
    return "passed", ""


def tail_of(case: ElementTree.Element) -> str:
    """The last lines a failed test printed, since a log may be cut before them."""
    node = case.find("failure")
    text = case.findtext("system-out") or (node.text if node is not None else "") or ""
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(f"    | {line[:200]}\n" for line in lines[-TAIL_LINES:])


def main(argv: list[str]) -> int:
    require_all = "--require-all" in argv[1:]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in (word for word in argv[1:] if word != "--require-all"):
        try:
            cases = list(ElementTree.parse(name).iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            print(f"FAILED {name}: {error}")
            counts["failed"] += 1
            continue
        for case in cases:
            result, why = outcome(case)
            if result == "skipped" and require_all and not MACHINE_REASONS.search(why):
                result, why = "failed", f"skipped, which CI forbids: {why}"
            counts[result] += 1
            if result != "passed":
                place, label = case.get("classname"), case.get("name")
                label = label if place == label else f"{place}::{label}"
                print(f"{result.upper()} {label}: {why.splitlines()[0] if why else ''}")
            if result == "failed":
                print(tail_of(case), end="")
    print(", ".join(f"{number} {result}" for result, number in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
