# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts on one machine, each with its own name, network, processes, /tmp and sshd.

    with Lab(4) as (h1, h2, h3, h4):
        h1.run("ssh", "h2", "hostname")

Root only. Nothing of the machine's own network, /etc or /tmp is touched, and when the process that
made the hosts dies in any way, so do they.
"""

from .files import USERS, HostOptions
from .host import Host
from .lab import Lab, why_not

__all__ = ["USERS", "Host", "HostOptions", "Lab", "why_not"]
