// SPDX-License-Identifier: Apache-2.0
//
// Decides which ranks a later world of a job has, after some have ended. No I/O.
#pragma once

#include "launcher/supervise/job_record.hpp"
#include "launcher/supervise/key_store.hpp"

#include <map>
#include <vector>

namespace hvd::launch {

/// Under --on-failure wait the ranks that live form a world without the others: one decision for
/// all, made here when the last of them has asked, so that no two ranks differ about it.
class WorldMembers final {
public:
    struct Decision {
        std::vector<int> ranks;  // ascending
        std::vector<KeyStore::Asker> askers;
    };

    /// A rank asks for the members of a world.
    void ask(int world, const KeyStore::Asker& asker) { askers_[world][asker.rank] = asker; }

    /// The worlds for which all ranks that live have asked, each once. Called when one has asked or
    /// has ended.
    [[nodiscard]] std::vector<Decision> decide(const JobRecord& record);

private:
    std::map<int, std::map<int, KeyStore::Asker>> askers_;  // by world and rank; undecided
};

}  // namespace hvd::launch
