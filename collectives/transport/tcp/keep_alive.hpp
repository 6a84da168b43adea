// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::coll::net {

/// For a connection over which words go to and fro: they leave at once, and a peer whose machine
/// has vanished is noticed after 30 s, also while nothing is said.
void keep_alive(int socket) noexcept;

}  // namespace hvd::coll::net
