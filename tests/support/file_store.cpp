// SPDX-License-Identifier: Apache-2.0
#include "tests/support/file_store.hpp"

#include "collectives/base/file.hpp"

#include <algorithm>
#include <fstream>
#include <thread>

#include <unistd.h>

namespace hvd::test {

FileStore::FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

std::filesystem::path FileStore::path_of(std::string_view key) const {
    std::string name(key);
    std::ranges::replace(name, '/', '.');
    return folder_ / name;
}

Status FileStore::put(std::string_view key, std::span<const std::byte> value) {
    const auto path = path_of(key);
    const auto part = path.string() + "." + std::to_string(::getpid()) + ".part";
    std::ofstream file(part, std::ios::binary);
    file.write(reinterpret_cast<const char*>(value.data()),
               static_cast<std::streamsize>(value.size()));
    file.close();
    std::filesystem::rename(part, path);  // so that nobody reads half of it
    return ok();
}

Result<std::vector<std::byte>> FileStore::get(std::string_view key, Deadline deadline) {
    const auto path = path_of(key);
    while (!std::filesystem::exists(path)) {
        if (deadline.has_passed()) {
            return Error{Errc::timed_out, "nobody put '" + std::string(key) + "'"};
        }
        std::this_thread::yield();
    }
    HVD_TRY(const auto text, read_file(path, std::size_t{1} << 20));
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace hvd::test
