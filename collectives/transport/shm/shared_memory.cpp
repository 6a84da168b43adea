// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/shared_memory.hpp"

#include "collectives/base/assert.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRanksPerWord = 64;

[[nodiscard]] constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
    return (bytes + kPage - 1) / kPage * kPage;
}

[[nodiscard]] std::size_t sleeper_words(int size) noexcept {
    return (static_cast<std::size_t>(size) + kRanksPerWord - 1) / kRanksPerWord;
}

[[nodiscard]] std::size_t header_bytes(int size) noexcept {
    return whole_pages(sleeper_words(size) * sizeof(SleeperWord));
}

[[nodiscard]] std::size_t total_bytes(int size, std::span<const std::size_t> segments) noexcept {
    auto total = header_bytes(size);
    for (const auto bytes : segments) {
        total += whole_pages(bytes);
    }
    return total;
}

[[nodiscard]] Error no_memory(std::size_t bytes, std::string_view step) {
    auto error = system_error("cannot share " + std::to_string(bytes) +
                                  " bytes between the ranks of this host: " + std::string(step),
                              errno);
    error.code = Errc::unavailable;
    error.message += "; see `ulimit -v`, `ulimit -n` and the memory limit of the container";
    return error;
}

}  // namespace

Result<UniqueFd> SharedMemory::create(int size, std::span<const std::size_t> segments) {
    const auto bytes = total_bytes(size, segments);
    UniqueFd fd(::memfd_create("horovod", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) {
        return no_memory(bytes, "memfd_create");
    }
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
        return no_memory(bytes, "ftruncate");
    }
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        return no_memory(bytes, "F_ADD_SEALS");
    }
    return fd;
}

Result<SharedMemory> SharedMemory::map(int fd, int size, std::span<const std::size_t> segments) {
    SharedMemory memory;
    memory.bytes_ = total_bytes(size, segments);
    struct stat status {};
    if (::fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < memory.bytes_) {
        return Error{Errc::internal, "shared memory of " + std::to_string(status.st_size) +
                                         " bytes instead of " + std::to_string(memory.bytes_)};
    }
    memory.fd_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!memory.fd_) {
        return no_memory(memory.bytes_, "F_DUPFD_CLOEXEC");
    }
    void* base =
        ::mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        return no_memory(memory.bytes_, "mmap");
    }
    memory.base_ = static_cast<std::byte*>(base);
    memory.owner_ = ::getpid();
    if (::madvise(base, memory.bytes_, MADV_DONTFORK) != 0) {
        return no_memory(memory.bytes_, "MADV_DONTFORK");
    }
    // Zero bytes are valid atomics, whichever rank comes first.
    memory.sleepers_ = {reinterpret_cast<SleeperWord*>(base), sleeper_words(size)};
    auto* next = memory.base_ + header_bytes(size);
    for (const auto bytes : segments) {
        memory.segments_.emplace_back(next, bytes);
        next += whole_pages(bytes);
    }
    return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      owner_(other.owner_),
      sleepers_(other.sleepers_),
      segments_(std::move(other.segments_)) {}

SharedMemory::~SharedMemory() {
    if (base_ != nullptr && owner_ == ::getpid()) {
        (void)::munmap(base_, bytes_);
    }
}

std::span<std::byte> SharedMemory::segment(std::size_t index) const noexcept {
    HVD_ASSERT(index < segments_.size(), "a segment that the options named");
    return segments_[index];
}

}  // namespace hvd::coll
