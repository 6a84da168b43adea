# SPDX-License-Identifier: Apache-2.0
"""What programs of the original import from the launcher. The launcher itself is `horovodrun`."""
