# SPDX-License-Identifier: Apache-2.0
"""What all front ends share: the library, the world, process sets, exceptions."""
