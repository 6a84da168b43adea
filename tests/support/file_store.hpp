// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/rendezvous/store.hpp"

#include <filesystem>

namespace hvd::test {

/// A Store in a folder, for ranks that are processes of one machine.
class FileStore final : public coll::Store {
public:
    explicit FileStore(std::filesystem::path folder);

    [[nodiscard]] Status put(std::string_view key, std::span<const std::byte> value) override;
    [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key,
                                                     Deadline deadline) override;

private:
    [[nodiscard]] std::filesystem::path path_of(std::string_view key) const;

    std::filesystem::path folder_;
};

}  // namespace hvd::test
