// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::coll::net {

/// The end of the error of a connection that could not be made.
inline constexpr const char* kRemedy =
    "; a firewall, or see HOROVOD_NETWORK_INTERFACES and HOROVOD_PORT_RANGE";

/// The same where a rank listened once, and nobody listens at any of its addresses any more.
inline constexpr const char* kHasLeft =
    "; it has left or is leaving: see what it printed; if nothing, a firewall rejects connections: "
    "see HOROVOD_NETWORK_INTERFACES and HOROVOD_PORT_RANGE";

}  // namespace hvd::coll::net
