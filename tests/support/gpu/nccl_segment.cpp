// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/nccl_segment.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

namespace hvd::test::gpu {
namespace {

struct IdContent {
    std::uint64_t nonce;
    std::int32_t pid;
    std::int32_t fd;
};

IdContent content_of(const ncclUniqueId& id) {
    IdContent content{};
    std::memcpy(&content, id.internal, sizeof(content));
    return content;
}

std::mutex mutex;
std::map<std::uint64_t, UniqueFd>& held() {
    static auto& map = *new std::map<std::uint64_t, UniqueFd>;  // guarded by mutex
    return map;
}

SharedArea* map_area(int fd) {
    void* const memory =
        ::mmap(nullptr, sizeof(SharedArea), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<SharedArea*>(memory);
}

}  // namespace

std::optional<ncclUniqueId> Segment::make_id() {
    UniqueFd file(::memfd_create("hvd-fake-nccl", MFD_CLOEXEC));
    if (!file || ::ftruncate(file.get(), sizeof(SharedArea)) != 0) {
        return std::nullopt;
    }
    IdContent content{.nonce = 0, .pid = ::getpid(), .fd = file.get()};
    if (::getrandom(&content.nonce, sizeof(content.nonce), 0) != sizeof(content.nonce)) {
        return std::nullopt;
    }
    SharedArea* const area = map_area(file.get());
    if (area == nullptr) {
        return std::nullopt;
    }
    area->nonce = content.nonce;
    (void)::munmap(area, sizeof(SharedArea));
    ncclUniqueId id{};
    std::memcpy(id.internal, &content, sizeof(content));
    const std::lock_guard lock(mutex);
    held().emplace(content.nonce, std::move(file));
    return id;
}

void Segment::release_id(const ncclUniqueId& id) {
    const std::lock_guard lock(mutex);
    held().erase(content_of(id).nonce);
}

std::size_t Segment::held_ids() {
    const std::lock_guard lock(mutex);
    return held().size();
}

std::unique_ptr<Segment> Segment::open(const ncclUniqueId& id) {
    const auto content = content_of(id);
    const auto path = "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd);
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    SharedArea* const area = file ? map_area(file.get()) : nullptr;
    if (area == nullptr) {
        return nullptr;
    }
    auto segment = std::make_unique<Segment>(area);
    return area->nonce == content.nonce ? std::move(segment) : nullptr;
}

Segment::~Segment() {
    (void)::munmap(area_, sizeof(SharedArea));
}

}  // namespace hvd::test::gpu
