// SPDX-License-Identifier: Apache-2.0
//
// The controls of the stand-in for NCCL.
//
// The stand-in is a libnccl.so.2 that is opened as the real one is. Its communicators lie in shared
// memory, their collectives run in the streams of the stand-in for the driver. As on a GPU, a
// collective that has begun keeps its device to itself: ranks that begin those of two communicators
// in different orders wait for each other for ever.
#pragma once

#include <nccl.h>

#include <chrono>
#include <string>
#include <vector>

namespace hvd::test::gpu {

/// Thread: any. What is used wrongly is reported to the driver's stand-in, as a violation.
class NcclControl {
public:
    virtual ~NcclControl() = default;
    NcclControl(const NcclControl&) = delete;
    NcclControl& operator=(const NcclControl&) = delete;

    /// The call number `number` of `function` from now on (0 is the next) returns `result`.
    virtual void fail(const std::string& function, int number, ncclResult_t result) = 0;

    /// No call fails any more.
    virtual void forgive() = 0;

    /// Every call of `function` takes that long.
    virtual void delay(const std::string& function, std::chrono::microseconds time) = 0;

    /// How often it has been called.
    [[nodiscard]] virtual int calls(const std::string& function) const = 0;

    /// Every communicator has this asynchronous error from now on; ncclSuccess: none again.
    virtual void set_async_error(ncclResult_t error) = 0;

    /// Whether a communicator notices that a peer's process has died, as it does over a network:
    /// an asynchronous error. Otherwise it waits for ever, as inside a host.
    virtual void notice_dead_peers(bool yes) = 0;

    /// Each group of calls number n, 2n, ... of a non-blocking communicator is in progress when
    /// it returns. 0: only the first, where the ranks connect.
    virtual void be_slow_every(int groups) = 0;

    /// Objects that were made and not destroyed: "1 communicator".
    [[nodiscard]] virtual std::vector<std::string> leaks() const = 0;

protected:
    NcclControl() = default;
};

/// The symbol of the stand-in that gives it: NcclControl* hvd_fake_nccl().
inline constexpr const char* kNcclControlSymbol = "hvd_fake_nccl";
using NcclControlFunction = NcclControl* (*)();

/// The version code that it says; unset: 2.28.5.
inline constexpr const char* kEnvNcclVersion = "HVD_FAKE_NCCL_VERSION";

/// The host on which this process is: ranks of different ones cannot connect. Unset: all on one.
inline constexpr const char* kEnvNcclHost = "HVD_FAKE_NCCL_HOST";

}  // namespace hvd::test::gpu
