// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hvd::rt {

/// The version code (22707 is 2.27.7) of the NCCL that HOROVOD_NCCL_LIBRARY names, else of the
/// libnccl.so.2 that this process has loaded or that the dynamic loader finds. It is loaded for
/// this. 0: there is none. Thread: any.
[[nodiscard]] std::int32_t nccl_version();

}  // namespace hvd::rt
