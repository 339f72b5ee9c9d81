// SPDX-License-Identifier: BSD-3-Clause
// The proof that a descriptor is a node of a card, made before libhl-thunk is asked about it. The library cannot be asked
// first: releases of it name card 0 for any descriptor that they do not know, and every other call on a descriptor of
// another driver would be an ioctl of unknown effect.
#pragma once

#include "result.h"

#include <sys/types.h>

#include <string>

namespace gaudi {

class NodeProof {
public:
    NodeProof() = default;
    /// What the nodes of the card look like is read from its control node, which libhl-thunk opened by number.
    explicit NodeProof(int control_fd);

    /// Whether `fd` is a node of the card with this bus id. A character device is, if its own entry in sysfs names the card;
    /// a node that is no device lies in the directory of the control node. An error where that cannot be found out now.
    Result<bool> accepts(int fd, const std::string &bus_id) const;

    /// The number of the control node; 0 where it is no device.
    dev_t control() const { return m_control; }

private:
    mode_t m_type = 0; // the file type of the card's nodes; 0: unknown, and nothing is accepted
    dev_t m_control = 0;
    std::string m_directory;
};

/// Whether the entry of a character device in sysfs names the card with this bus id.
Result<bool> sysfs_names_card(dev_t device, const std::string &bus_id, const std::string &entries = "/sys/dev/char");

} // namespace gaudi
