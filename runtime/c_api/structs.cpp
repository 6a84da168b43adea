// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/structs.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace hvd::rt::abi {

Status check_unusual(std::string_view name,
                     std::size_t first,
                     std::size_t known,
                     const void* theirs,
                     std::size_t size) {
    const auto is = std::string(name) + ".struct_size is " + std::to_string(size);
    if (size < first) {
        return Error{Errc::invalid_argument,
                     is + ", but even its first version had " + std::to_string(first) + " bytes"};
    }
    if (size > kLargestStruct) {
        return Error{Errc::invalid_argument,
                     is + ", but no version has more than " + std::to_string(kLargestStruct)};
    }
    if (size > known) {
        const std::span bytes(static_cast<const std::byte*>(theirs), size);
        if (std::ranges::any_of(bytes.subspan(known),
                                [](std::byte byte) { return byte != std::byte{0}; })) {
            return Error{Errc::unsupported,
                         is + ", and a field beyond the " + std::to_string(known) +
                             " bytes that this library knows is set: the program was compiled for "
                             "a newer libhorovod"};
        }
    }
    return ok();
}

}  // namespace hvd::rt::abi
