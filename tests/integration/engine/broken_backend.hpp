// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace hvd::test {

/// Takes every task on 16-bit integers. On one rank each start fails; on the others the tasks wait
/// for that rank.
class BrokenBackend final : public coll::Backend {
public:
    explicit BrokenBackend(bool fails) : fails_(fails) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "broken"; }
    [[nodiscard]] int score(const coll::Task& task,
                            const coll::ProcessSet& /*set*/) const noexcept override {
        return task.type == coll::DataType::u16 ? 1000 : 0;
    }
    [[nodiscard]] std::size_t fusion_bytes() const noexcept override { return 1024; }
    [[nodiscard]] std::unique_ptr<coll::Communicator> open(const coll::ProcessSet& /*set*/,
                                                           coll::Device /*device*/) override {
        return std::make_unique<BrokenCommunicator>(fails_);
    }

private:
    class WaitingWork final : public coll::Work {
    public:
        explicit WaitingWork(const std::optional<Error>& cause) : cause_(cause) {}

        [[nodiscard]] Result<Progress> poll() override {
            if (cause_) {
                return *cause_;
            }
            return Progress::pending;
        }

    private:
        const std::optional<Error>& cause_;
    };

    class BrokenCommunicator final : public coll::Communicator {
    public:
        explicit BrokenCommunicator(bool fails) : Communicator("broken"), fails_(fails) {}

        [[nodiscard]] bool gathers(const coll::Task&) const noexcept override { return true; }
        [[nodiscard]] std::span<std::byte> workspace(std::size_t) override { return {}; }

    private:
        std::unique_ptr<coll::Work> do_start(const coll::Task& /*task*/) override {
            if (fails_) {
                throw Exception({Errc::internal, "the fan has stopped"});
            }
            return std::make_unique<WaitingWork>(cause_);
        }
        void do_abort(const Error& cause) override { cause_ = cause; }

        bool fails_;
        std::optional<Error> cause_;
    };

    bool fails_;
};

}  // namespace hvd::test
