// SPDX-License-Identifier: Apache-2.0
//
// The operations that a schedule of collectives/algorithms needs of a transport, and no more.
#pragma once

#include "collectives/base/result.hpp"

#include <concepts>
#include <cstddef>
#include <span>

namespace hvd::coll {

/// One member's end of a process set's messages. They go in steps: in each, at most one message to
/// every other place and one from every other place, all at the same time. Both ends know how long
/// a message is. Every member makes the same steps, though it may have no message in one.
///
///     place, size   where this member stands, and how many there are
///     send, recv    add memory to the step's message to, or from, a place. It stays as it is until
///                   the step is over. A message without bytes is one, too.
///     post          begins the step
///     wait          never blocks: moves the bytes that can be moved now. True when the step is
///                   over: all messages out have been taken, all messages in have arrived.
///     missing       may be left out: the places that are known not to have begun the step
///
/// Errors of `wait` are for good.
template <class At>
concept Endpoint =
    requires(At& at, int place, std::span<const std::byte> out, std::span<std::byte> in) {
    { at.place() } -> std::same_as<int>;
    { at.size() } -> std::same_as<int>;
    at.send(place, out);
    at.recv(place, in);
    at.post();
    { at.wait() } -> std::same_as<Result<bool>>;
};

}  // namespace hvd::coll
