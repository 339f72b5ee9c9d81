// SPDX-License-Identifier: BSD-3-Clause
// The source of the table in docs/assumptions.md, which tools/assumptions.py writes.
#include "register.h"

#include <array>

namespace gaudi::cli::verify {
namespace {

constexpr std::array kAssumptions = {
    Assumption{
        "A1", "a `LIN_DMA` packet is 24 bytes: size, opcode 9 in bits 24 to 28 of the second word, source, destination",
        "vendor's tests",
        "step `copies`; the self-test at card open copies 256 KiB and 64 KiB down and up and compares, eight times",
        "the card records an undefined opcode and resets; the self-test fails, no copy is reported as done, and "
        "allocation and export still work"},
    Assumption{
        "A2",
        "a `MSG_LONG` packet with the engine barrier is written after the data of the copies before it has arrived",
        "nothing public promises it",
        "step `soak`; the same self-test reads the completion flag and compares the data at once",
        "the flag is used only where a record says that its order held in a soak, else the driver is asked; a "
        "self-test that fails is repeated with completion by the driver, which then stays in use; if no data arrives "
        "even then, the card takes no copies"},
    Assumption{"A3",
               "queues 0 and 1 (two streams of PDMA 0) copy from the host, 4 and 5 (PDMA 1) to the host, the first "
               "queue of each EDMA within the card, and the second one of the first for small copies",
               "vendor's tests use 0, 4 and the EDMAs so", "step `copies`; the self-test copies on each queue",
               "the driver refuses the submission (`EINVAL`), and the copy fails with that message"},
    Assumption{"A4", "bit n of `edma_enabled_mask` stands for queues 8, 12, 48, 52, 84, 88, 120, 124 in this order",
               "public driver", "step `copies`; the self-test", "as A3, for copies within a card"},
    Assumption{"A5", "command buffers may lie in ordinary host memory that is mapped into the card", "vendor's tests",
               "step `copies`; the self-test", "as A1"},
    Assumption{"A6", "submission n is accepted when n-64 has completed; before that the library spins", "public driver",
               "step `window`",
               "the engine stops at 48; if the driver accepts fewer, submissions wait inside the library"},
    Assumption{"A7", "`hlthunk_device_memory_map` maps at an aligned and free hint", "public driver, vendor's tests",
               "step `memory`; each mapping is compared with its hint",
               "without hints the driver maps at the same addresses on every card; a mapping at an address of another "
               "card's is unmapped and the allocation fails with a message"},
    Assumption{
        "A8", "a device address is never a valid pointer of the program", "address maps of Gaudi2 and Gaudi3",
        "step `memory`",
        "host memory in the same range would be detected as Gaudi memory; Gaudi1, where it is false, is not supported"},
    Assumption{"A9", "whole blocks at offset 0 can be exported as dma-bufs; the importer adds the offset",
               "public driver (it ignores export offsets)",
               "step `export`; each block is exported when it is mapped, and each foreign mapping that is longer than "
               "those exported before",
               "the memory is reported as not registrable, and UCX stages it; a refusal of a long mapping (a PCIe BAR "
               "that is shorter than the memory) says nothing about shorter ones"},
    Assumption{"A10", "memory whose dma-buf is open cannot be unmapped (`EINVAL`), and can be when it is closed",
               "public driver", "step `export`; the result of each unmap is checked",
               "a block is freed too early only if the driver allows it"},
    Assumption{
        "A11",
        "`hlthunk_cs_flush_pci_hbw_writes` makes RDMA writes visible to the card's engines; each copy from memory that "
        "a device may have written is preceded by it, and fails if it fails",
        "public driver (name and use of the flag), vendor's out-of-tree driver (early write response)",
        "step `nic`; tried once before the first export",
        "where the flush is missing or refused nothing is exported, and UCX stages the memory; where it does nothing, "
        "stale data could be copied after an RDMA write into the same memory"},
    Assumption{"A12", "host memory of any alignment and size can be mapped", "public driver",
               "step `host`; the result of each mapping is checked", "copies of that memory are staged"},
    Assumption{"A13", "opening is exclusive; control nodes are not", "public driver", "step `open`",
               "discovery would make cards busy for other processes"},
    Assumption{"A14", "a Gaudi3 takes no command submissions from users", "out-of-tree driver", "step `copies`",
               "the transport does not offer copies that would be possible"},
    Assumption{
        "A15",
        "`wait_for_cs` reports an aborted submission as `EIO`, a timed-out one as `ETIMEDOUT`, and refuses with "
        "`EBUSY` in a reset",
        "public driver", "*not testable*: it needs a reset of the card",
        "while the card is operational, a wait that failed with a transient error is repeated for 5 s; after that, or "
        "after another error, the card takes no more copies and a message gives the reason; memory of submissions that "
        "the driver has not reported as completed or aborted stays mapped and is not used again, also after a timeout"},
    Assumption{"A16",
               "where the driver imports dma-bufs (the production driver's operation 99), a card's engine may write to "
               "the other card's memory through it",
               "vendor's out-of-tree driver", "step `import`; the first copy from card to card probes it",
               "copies from card to card go through host memory"},
    Assumption{"A17",
               "only exactly the address that `hlthunk_device_memory_map` returned can be exported, and no more than "
               "the allocation in whole pages",
               "public driver", "step `export`", "probing would find foreign memory with a wrong start or length"},
    Assumption{"A18", "mappings begin at multiples of the card's page from the start of its address range",
               "public driver", "step `memory`",
               "probing does not find foreign memory with another page size, and UCX takes it for host memory"},
    Assumption{"A19",
               "`hlthunk_get_pci_bus_id_from_fd` makes no system call on the device itself, and `wait_for_cs` of "
               "submission 0 succeeds on a compute node and fails on a control node",
               "open libhl-thunk, public driver", "step `open`",
               "a card that a framework has open is not adopted, and opening it fails because it is in use"},
    Assumption{"A20", "a duplicate of a descriptor shares its context: memory, mappings, submissions", "public driver",
               "step `open`; the self-test on an adopted card",
               "no copies on that card, or copies by SynapseAI's own call"},
    Assumption{"A21", "a card in use by SynapseAI takes other submissions beside SynapseAI's",
               "nothing public promises it",
               "step `synapse`; the self-test, on memory that it allocates, with the flag that keeps a timeout from "
               "resetting the card",
               "SynapseAI's own copy call, else no copy path"},
    Assumption{
        "A22",
        "`synDeviceGetInfoV2`, `synDeviceMalloc`, `synHostMap`, `synMemCopyAsync`, streams and events, and SCAL's pool "
        "`global_hbm` are as in their public headers (listed in `src/gaudi/framework/synapse_abi.h`)",
        "those headers", "step `synapse`; implausible results are ignored",
        "as A21 without SynapseAI; its memory is found by probing the driver"},
    Assumption{"A23",
               "a device can write to a card's memory through a dma-buf only where the kernel has ib_core, the nvidia "
               "module or a render node: other cards do so only for copies of the same process",
               "public driver (mainline imports nothing)",
               "step `machine`; each duplicate of a descriptor looks for them (`importer_may_exist`)",
               "without any of these, copies from exported memory are not preceded by a flush, and would read stale "
               "data after such a write"},
    Assumption{"A24",
               "the nodes of a card are character devices whose entry `/sys/dev/char/MAJOR:MINOR` leads to the card "
               "(`device`, or its attribute `pci_addr`)",
               "public driver; newer releases of libhl-thunk read it",
               "step `descriptors`; libhl-thunk gets no descriptor whose entry does not name the card, because a newer "
               "one takes any other file for card 0",
               "as A19"},
    Assumption{"A25", "a kernel of a framework sees RDMA writes to its memory without a flush",
               "nothing public promises it; the vendor's collective library flushes after each such receive",
               "*not testable*: it needs a kernel of a framework",
               "a kernel reads what was there before: call `gaudi_flush_rdma_writes` (`src/buffer/buffer.h`), in "
               "Python `ucx_gaudi.flush()`, after UCX has reported the receive and before the kernel is launched"},
    Assumption{"A26",
               "`synHostMap` of memory that is mapped already succeeds without a reference, `synHostUnmap` ends a "
               "mapping whoever made it (and `synHostMalloc` memory itself), and no call tells whether memory is "
               "mapped: only memory of this library is passed to them",
               "SynapseAI's public runtime source", "step `synapse`, on memory of its own",
               "memory of users is staged although it could be mapped"},
    Assumption{"A27",
               "`synMemCopyAsync` of host memory that is not mapped, or with an argument that it refuses, fails that "
               "call and says nothing about the card",
               "SynapseAI's public runtime source",
               "step `synapse`; each refused copy fails alone, and the card's status is asked after other errors",
               "copies fail one by one, each with SynapseAI's status, until the card is reported as lost"},
    Assumption{"A28", "`synDeviceRelease` fails while another thread is inside a call of SynapseAI",
               "SynapseAI's public runtime source", "*not testable*: no call of SynapseAI can be held from outside",
               "nothing: the engine makes short calls only, so that a release that is repeated succeeds"},
    Assumption{
        "A29",
        "SCAL allocates all memory of its card in one call and requires the address of its hint, so nothing of this "
        "library may be allocated on a card that SynapseAI opens, and the driver has nothing left on one that it holds",
        "SCAL's public source",
        "step `synapse`; the hand-over gives back all memory first; allocations come from `synDeviceMalloc`",
        "a card could be shared where it is refused (`EBUSY`)"},
    Assumption{"A30",
               "where libhl-thunk lacks `hlthunk_cs_flush_pci_hbw_writes`, or the driver has no flush for a card "
               "(`EOPNOTSUPP`), writes that a NIC has reported are visible to SynapseAI's copies",
               "public driver, vendor's out-of-tree driver (early write response came with the flush)",
               "*not testable*: it needs a libhl-thunk or a driver without the flush",
               "stale data could be copied by SynapseAI's call after an RDMA write"},
    Assumption{"A31", "`ibv_reg_dmabuf_mr` of descriptor -1 fails with `EBADF` where a NIC takes dma-bufs",
               "UCX and HCCL probe it so", "step `nic`",
               "UCX does not offer dma-bufs to that NIC, and memory is staged"},
    Assumption{"A32", "the kernel hands dma-bufs to RDMA devices: 5.12 or later, with `ib_umem_dmabuf_get`",
               "HCCL checks it so", "step `machine`",
               "registration fails, and `UCX_GAUDI_COPY_DMABUF=n` stages the memory"},
    Assumption{
        "A33",
        "a NIC reads and writes the memory of a card through its dma-buf: no IOMMU or ACS setting keeps peer-to-peer "
        "transfers from arriving",
        "vendor's guides ask for ACS off and IOMMU passthrough", "step `nic`; step `machine` shows the settings",
        "registration fails with `EPERM`, or transfers end with an error: `UCX_GAUDI_COPY_DMABUF=n` stages the memory"},
    Assumption{"A37", "`data_ptr()` of a PyTorch tensor on HPU is a handle, not an address, unless `_data_ptr` made it",
               "public sources of the PyTorch bridge", "*not testable*: it needs PyTorch and a model",
               "addresses are passed to UCX as they are"},
    Assumption{"A38",
               "the card keeps the pages of host memory that were there when they were mapped, until they are unmapped",
               "public driver", "step `host`",
               "nothing: mappings are ended when the program unmaps their memory, whatever the card would read"},
    Assumption{"A39", "the PCI BAR of a card covers all of its memory, so that any of it can be exported",
               "public driver; virtual machines may have a shorter BAR",
               "step `export`; each block is exported when it is mapped",
               "memory that is not exported is staged, as in A9"},
    Assumption{
        "A40",
        "an open card takes one registration of events (`hlthunk_notifier_create`), whose eventfd is readable only "
        "after an event; a second one is refused until the first is released",
        "public driver", "step `open`; each open registers",
        "a reset is seen at the next allocation only, and the driver kills the process; or a framework that gets "
        "the card handed over is refused its own registration"},
    Assumption{
        "A41",
        "before it resets a card for an error, the driver reports `DEVICE_RESET` to the registered eventfd, waits 30 s "
        "for the card to be closed, calls it operational meanwhile and refuses waits with `EBUSY`; in a reset "
        "it kills, after a second, the process that opened a card which is still open by a descriptor or a dma-buf",
        "public driver", "*not testable*: it needs a reset of the card",
        "the process is killed; a reset from sysfs, which nothing reports, kills it in any case"},
};

} // namespace

std::span<const Assumption> assumptions() { return kAssumptions; }

const Assumption *find_assumption(std::string_view id) {
    for (const Assumption &one : kAssumptions)
        if (one.id == id)
            return &one;
    return nullptr;
}

} // namespace gaudi::cli::verify
