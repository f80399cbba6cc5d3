// Simulated GPUs: devices of type "GPU", made of host memory, for TensorFlow's stock wheel on a machine without a card.
//
// What is TensorFlow's own: the placer, the registry of kernels (which op has one for a GPU, for which dtypes, and what of it stays
// in host memory), the allocator (BFC), Send and Recv, the executor, the ring of collectives. What is ours: the devices, the copies
// and a kernel for each that the CUDA build registers, which calls the CPU's kernel of the same op. What a card takes in time
// is not simulated; copies can be slowed to a rate that somebody states, which is a model.
//
// Follows, in tensorflow/core/common_runtime: gpu/gpu_device.cc (BaseGPUDevice, BaseGPUDeviceFactory), gpu/gpu_process_state.cc
// (one allocator a device and process), gpu/gpu_bfc_allocator.cc, gpu_device_context.h, gpu/gpu_util.cc (copies),
// copy_tensor.cc, executor.cc (asynchronous kernels), device_factory.cc; in tensorflow/core/framework: op_kernel.h, op_kernel.cc
// (KernelRegistry); in tensorflow/compiler: jit/xla_kernel_creator.cc, jit/mark_for_compilation_pass.cc, tf2xla/xla_op_registry.h.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/globals.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "tensorflow/compiler/jit/xla_kernel_creator.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/common_runtime/copy_tensor.h"
#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/public/session_options.h"
#include "xla/tsl/framework/bfc_allocator.h"

namespace across {
namespace {

using namespace tensorflow;  // NOLINT: every name of its framework

constexpr char kName[] = "simulated GPU (host memory)";
constexpr int kDevicePriority = 230;      // the CUDA build's GPU has 210: the factory with the higher one is taken
constexpr int kKernelPriority = 100;      // added to the CUDA build's, which has 0 to 2
constexpr int kMostGpus = 64;             // more than the library lets anybody ask for

// ---------------------------------------------------------------------------------------------------------- memory

std::atomic<int> gpu_count{0};
std::atomic<int64_t> gpu_bytes{0};

// What is taken of each GPU's bytes: by the logical devices of this program and, where a file says so, by those of all programs
// that share the file. A program has a row in it and a lock on a byte of it, which ends with the program as its memory does.
class Cards {
 public:
  static Cards& Get() {
    static auto* cards = new Cards;
    return *cards;
  }

  // Share with all programs that name the same file. Call it before anything is taken.
  bool Share(const char* path) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (file_ >= 0) return true;
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const size_t size = kMostPrograms * sizeof(Row);
    if (file < 0 || ftruncate(file, size) != 0) return false;
    void* rows = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (rows == MAP_FAILED) return false;
    for (int row = 0; row < kMostPrograms; row++) {
      if (!Lock(file, row, F_WRLCK, F_SETLK)) continue;
      file_ = file;
      mine_ = row;
      rows_ = static_cast<Row*>(rows);
      std::memset(&rows_[mine_], 0, sizeof(Row));
      return true;
    }
    return false;
  }
  bool shared() const { return file_ >= 0; }

  bool Take(int gpu, int64_t bytes) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (shared()) Lock(file_, kMostPrograms, F_WRLCK, F_SETLKW);
    const bool fits = bytes <= Left(gpu);
    if (fits) rows_[mine_].taken[gpu] += bytes;
    if (shared()) Lock(file_, kMostPrograms, F_UNLCK, F_SETLK);
    return fits;
  }
  void Give(int gpu, int64_t bytes) {
    std::lock_guard<std::mutex> hold(mutex_);
    rows_[mine_].taken[gpu] -= bytes;
  }
  int64_t Free(int gpu) {
    std::lock_guard<std::mutex> hold(mutex_);
    return Left(gpu);
  }

 private:
  static constexpr int kMostPrograms = 64;
  struct Row {
    std::atomic<int64_t> taken[kMostGpus];
  };

  static bool Lock(int file, int byte, short type, int command) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return fcntl(file, command, &lock) == 0;
  }
  bool Lives(int row) const {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = row;
    lock.l_len = 1;
    return row == mine_ || (fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK);
  }
  int64_t Left(int gpu) const {
    int64_t left = gpu_bytes;
    for (int row = 0; row < (shared() ? kMostPrograms : 1); row++) {
      if (!shared() || Lives(row)) left -= rows_[row].taken[gpu];
    }
    return left;
  }

  std::mutex mutex_;
  int file_ = -1;
  int mine_ = 0;
  Row* rows_ = new Row[1]();
};

// What a program that sets nothing leaves of `free` bytes: MinSystemMemory of gpu_device.cc, for compute capability 8.
int64_t Reserve(int64_t free) { return free < (int64_t{2} << 30) ? int64_t{225} << 20 : int64_t{1536} << 20; }

// Pages of the host; as DeviceMemAllocator of gpu_mem_allocator.h, which asks a driver.
class HostPages : public tsl::SubAllocator {
 public:
  explicit HostPages(int gpu) : SubAllocator({}, {}), gpu_(gpu) {}
  void* Alloc(size_t alignment, size_t bytes, size_t* received) override {
    *received = 0;
    if (bytes == 0 || !Cards::Get().Take(gpu_, bytes)) return nullptr;
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
      Cards::Get().Give(gpu_, bytes);
      return nullptr;
    }
    *received = bytes;
    return pages;
  }
  void Free(void* pages, size_t bytes) override {
    if (pages == nullptr) return;
    munmap(pages, bytes);
    Cards::Get().Give(gpu_, bytes);
  }
  bool SupportsCoalescing() const override { return false; }

 private:
  const int gpu_;
};

// What the environment says of the allocator, as in gpu_bfc_allocator.cc: of growth, and of regions that are given back.
bool AllowGrowth(const GPUOptions& options) {
  const char* forced = std::getenv("TF_FORCE_GPU_ALLOW_GROWTH");
  if (forced != nullptr && std::strcmp(forced, "true") == 0) return true;
  if (forced != nullptr && std::strcmp(forced, "false") == 0) return false;
  return options.allow_growth();
}

bool GivesBack() {
  const char* set = std::getenv("TF_ENABLE_GPU_GARBAGE_COLLECTION");
  return set == nullptr || std::strcmp(set, "false") != 0;
}

// The allocator of the logical device `number`: made by whoever asks first in this process, then shared by all sessions.
Allocator* AllocatorOf(int number, int physical, int64_t limit, const GPUOptions& options) {
  static auto* mutex = new std::mutex;
  static auto* made = new std::map<int, std::unique_ptr<tsl::BFCAllocator>>;
  std::lock_guard<std::mutex> hold(*mutex);
  auto& allocator = (*made)[number];
  if (allocator == nullptr) {
    tsl::BFCAllocator::Options how;
    how.allow_growth = AllowGrowth(options);
    how.garbage_collection = GivesBack();
    how.fragmentation_fraction = options.experimental().internal_fragmentation_fraction();
    allocator = std::make_unique<tsl::BFCAllocator>(std::make_unique<HostPages>(physical), limit,
                                                    absl::StrCat("GPU_", number, "_bfc"), how);
  }
  return allocator.get();
}

// ---------------------------------------------------------------------------------------------------------- copies

struct Count {
  int64_t copies = 0;
  int64_t bytes = 0;
};

// Every copy to, from and between GPUs, by where from and where to; and the rate they are slowed to, if any: then the
// copies of one pair go one after the other, each for latency + bytes / rate, while those of other pairs go beside them.
class Traffic {
 public:
  static Traffic& Get() {
    static auto* traffic = new Traffic;
    return *traffic;
  }

  // Copies now, counts, and calls `done` now or, where copies are slowed, when the link would be done.
  void Move(const std::string& source, const std::string& target, const Tensor& from, Tensor* to, StatusCallback done) {
    const int64_t bytes = from.TotalBytes();
    if (bytes != static_cast<int64_t>(to->TotalBytes())) {
      done(errors::Internal("a copy of ", bytes, " bytes into ", to->TotalBytes()));
      return;
    }
    if (bytes > 0) std::memcpy(const_cast<char*>(to->tensor_data().data()), from.tensor_data().data(), bytes);
    int64_t wait = 0;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      Count& count = counts_[{source, target}];
      count.copies++;
      count.bytes += bytes;
      if (rate_ > 0) {
        const int64_t now = Env::Default()->NowMicros();
        int64_t& free_at = free_at_[{source, target}];
        free_at = std::max(now, free_at) + static_cast<int64_t>(1e6 * (latency_ + bytes / rate_));
        wait = free_at - now;
      }
    }
    if (wait <= 0) {
      done(absl::OkStatus());
    } else {
      Env::Default()->SchedClosureAfter(wait, [done = std::move(done)] { done(absl::OkStatus()); });
    }
  }

  void Slow(double bytes_per_second, double latency) {
    std::lock_guard<std::mutex> hold(mutex_);
    rate_ = bytes_per_second;
    latency_ = latency;
    free_at_.clear();
  }

  std::map<std::pair<std::string, std::string>, Count> Counts() {
    std::lock_guard<std::mutex> hold(mutex_);
    return counts_;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Count> counts_;
  std::map<std::pair<std::string, std::string>, int64_t> free_at_;  // microseconds
  double rate_ = 0;                                                 // bytes a second; 0: as fast as it goes
  double latency_ = 0;                                              // seconds
};

const char kHost[] = "CPU:0";
std::string ShortName(const DeviceBase& device) {
  return absl::StrCat(device.parsed_name().type, ":", device.parsed_name().id);
}

// The copies between host and GPU; as gpu_device_context.h, by gpu_util.cc.
class Copies : public DeviceContext {
 public:
  void CopyCPUTensorToDevice(const Tensor* from, Device* device, Tensor* to, StatusCallback done,
                             bool sync_dst_compute) const override {
    Traffic::Get().Move(kHost, ShortName(*device), *from, to, std::move(done));
  }
  void CopyDeviceTensorToCPU(const Tensor* from, absl::string_view name, Device* device, Tensor* to,
                             StatusCallback done) override {
    Traffic::Get().Move(ShortName(*device), kHost, *from, to, std::move(done));
  }
  void CopyTensorInSameDevice(const Tensor* from, Device* device, Tensor* to, StatusCallback done) const override {
    const std::string name = ShortName(*device);
    Traffic::Get().Move(name, name, *from, to, std::move(done));
  }
  absl::Status ThenExecute(Device* device, stream_executor::Stream* stream, std::function<void()> then) override {
    then();  // what was asked of the stream is done by the time that anybody hears of it
    return absl::OkStatus();
  }
};

void BetweenGpus(DeviceContext* send_context, DeviceContext* recv_context, Device* source, Device* target,
                 const AllocatorAttributes source_attributes, const AllocatorAttributes target_attributes,
                 const Tensor* from, Tensor* to, int stream_index, StatusCallback done) {
  Traffic::Get().Move(ShortName(*source), ShortName(*target), *from, to, std::move(done));
}

// ---------------------------------------------------------------------------------------------- one compute stream

// The ops of a GPU run one after the other, in the order in which they come. No thread of its own: who finds the stream idle
// runs its op, and then those that have come meanwhile. TensorFlow's contract makes this safe: a synchronous kernel does
// not wait for another kernel (op_kernel.h, OpKernel::Compute); those that do are asynchronous and do not come here.
class Stream {
 public:
  using Op = std::function<void()>;

  // Runs `op` here, or leaves it to who is at it.
  void Enqueue(Op op) {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (busy_) {
        waiting_.push_back(std::move(op));
        return;
      }
      busy_ = true;
    }
    const Stream* outer = inside;
    inside = this;
    while (true) {
      op();
      std::lock_guard<std::mutex> hold(mutex_);
      if (waiting_.empty()) {
        busy_ = false;
        break;
      }
      op = std::move(waiting_.front());
      waiting_.pop_front();
    }
    inside = outer;
  }

  // Runs `op` and returns when it has run.
  void Run(const Op& op) {
    if (inside == this) {  // an op of this stream, asked for by one that runs on it
      op();
      return;
    }
    absl::Notification ran;
    Enqueue([&op, &ran] {
      op();
      ran.Notify();
    });
    ran.WaitForNotification();
  }

 private:
  static thread_local const Stream* inside;
  std::mutex mutex_;
  bool busy_ = false;
  std::deque<Op> waiting_;
};
thread_local const Stream* Stream::inside = nullptr;

// ---------------------------------------------------------------------------------------------------------- devices

class SimulatedGpu : public LocalDevice {
 public:
  SimulatedGpu(const SessionOptions& options, const DeviceAttributes& attributes, Allocator* memory, int physical)
      : LocalDevice(options, attributes), memory_(memory), stream_(std::make_shared<Stream>()) {
    info_.default_context = copies_;
    info_.gpu_id = physical;
    set_tensorflow_accelerator_device_info(&info_);
  }
  ~SimulatedGpu() override { copies_->Unref(); }

  Allocator* GetAllocator(AllocatorAttributes attributes) override {
    return attributes.on_host() ? cpu_allocator() : memory_;
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status TryGetDeviceContext(DeviceContext** context) override {
    copies_->Ref();
    *context = copies_;
    return absl::OkStatus();
  }
  absl::Status MakeTensorFromProto(const TensorProto& proto, const AllocatorAttributes attributes,
                                   Tensor* tensor) override {
    Tensor parsed(proto.dtype());
    if (!parsed.FromProto(cpu_allocator(), proto)) {
      return errors::InvalidArgument("Cannot parse tensor from proto: ", proto.DebugString());
    }
    if (attributes.on_host() || !DataTypeCanUseMemcpy(parsed.dtype())) {
      *tensor = parsed;
      return absl::OkStatus();
    }
    Tensor copy(GetAllocator(attributes), parsed.dtype(), parsed.shape());
    if (!copy.IsInitialized()) {
      return errors::ResourceExhausted("OOM when allocating tensor of shape ", parsed.shape().DebugString(),
                                       " and type ", DataTypeString(parsed.dtype()));
    }
    TF_RETURN_IF_ERROR(copies_->CopyCPUTensorToDeviceSync(&parsed, this, &copy));
    *tensor = copy;
    return absl::OkStatus();
  }
  void CopyTensorInSameDevice(const Tensor* from, Tensor* to, const DeviceContext* context,
                              StatusCallback done) override {
    copies_->CopyTensorInSameDevice(from, this, to, std::move(done));
  }

  const std::shared_ptr<Stream>& stream() const { return stream_; }

 private:
  Allocator* const memory_;
  const std::shared_ptr<Stream> stream_;  // outlives us where it still has an op to finish
  Copies* const copies_ = new Copies;
  AcceleratorDeviceInfo info_;
};

// Which physical GPUs a program sees: GPUOptions.visible_device_list, in its order.
absl::Status Visible(const std::string& list, int count, std::vector<int>* visible) {
  if (list.empty()) {
    for (int i = 0; i < count; i++) visible->push_back(i);
    return absl::OkStatus();
  }
  for (absl::string_view entry : absl::StrSplit(list, ',')) {
    int gpu = -1;
    if (!absl::SimpleAtoi(entry, &gpu)) {
      return errors::InvalidArgument("Could not parse entry in 'visible_device_list': '", entry,
                                     "'. visible_device_list = ", list);
    }
    if (gpu < 0 || gpu >= count) {
      return errors::InvalidArgument("'visible_device_list' listed an invalid Device id '", gpu,
                                     "' but visible device count is ", count);
    }
    if (std::find(visible->begin(), visible->end(), gpu) != visible->end()) {
      return errors::InvalidArgument("visible_device_list contained a duplicate entry: ", list);
    }
    visible->push_back(gpu);
  }
  return absl::OkStatus();
}

class Factory : public DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    for (int i = 0; i < gpu_count; i++) devices->push_back(absl::StrCat("/physical_device:GPU:", i));
    return absl::OkStatus();
  }

  absl::Status GetDeviceDetails(int index, std::unordered_map<std::string, std::string>* details) override {
    (*details)["device_name"] = kName;  // and no compute capability: it has none
    return absl::OkStatus();
  }

  absl::Status CreateDevices(const SessionOptions& options, const std::string& prefix,
                             std::vector<std::unique_ptr<Device>>* devices) override {
    const GPUOptions& gpu_options = options.config.gpu_options();
    const auto& pieces = gpu_options.experimental().virtual_devices();
    const auto asked = options.config.device_count().find("GPU");
    std::vector<int> visible;
    TF_RETURN_IF_ERROR(Visible(gpu_options.visible_device_list(), gpu_count, &visible));
    if (pieces.size() > static_cast<int>(visible.size())) {
      return errors::InvalidArgument("The number of GPUs in 'virtual_devices' is ", pieces.size(), ", but ",
                                     visible.size(), " are visible");
    }
    if (asked != options.config.device_count().end() && (pieces.empty() || asked->second == 0)) {
      visible.resize(std::min<size_t>(visible.size(), std::max(0, asked->second)));
    }
    int number = 0;
    for (int at = 0; at < static_cast<int>(visible.size()); at++) {
      std::vector<int64_t> limits;
      if (at < pieces.size()) {
        for (float mib : pieces[at].memory_limit_mb()) limits.push_back(static_cast<int64_t>(mib) << 20);
      }
      if (limits.empty()) {
        const double fraction = gpu_options.per_process_gpu_memory_fraction();
        int64_t limit = fraction > 0 ? static_cast<int64_t>(gpu_bytes * fraction) : gpu_bytes.load();
        if (fraction <= 0 && Cards::Get().shared()) {
          limit = Cards::Get().Free(visible[at]);
          if (limit > Reserve(limit)) limit -= Reserve(limit);
        }
        limits.push_back(limit);
      }
      for (int64_t limit : limits) {
        DeviceLocality locality;
        locality.set_bus_id(1);
        auto attributes = Device::BuildDeviceAttributes(absl::StrCat(prefix, "/device:GPU:", number), DEVICE_GPU,
                                                        Bytes(limit), locality,
                                                        absl::StrCat("device: ", visible[at], ", name: ", kName));
        devices->push_back(std::make_unique<SimulatedGpu>(
            options, attributes, AllocatorOf(number, visible[at], limit, gpu_options), visible[at]));
        number++;
      }
    }
    return absl::OkStatus();
  }
};

// ---------------------------------------------------------------------------------------------------------- kernels

std::string Refusal(const std::string& op) {
  if (absl::StartsWith(op, "Nccl") || absl::StartsWith(op, "_Nccl")) {
    return absl::StrCat("NCCL (", op, ") joins NVIDIA's cards, and this is a simulated GPU: let the strategy choose, or "
                        "take tf.distribute.ReductionToOneDevice() or tf.distribute.HierarchicalCopyAllReduce().");
  }
  if (absl::StartsWith(op, "Xla") || absl::StartsWith(op, "_Xla")) {
    return absl::StrCat("XLA (", op, ") compiles for cards, and this is a simulated GPU: run it without XLA, or on /CPU:0.");
  }
  if (absl::StartsWith(op, "Cudnn")) {
    return absl::StrCat(op, " is cuDNN's, which needs an NVIDIA card, and this is a simulated GPU: in Keras, "
                        "use_cudnn=False.");
  }
  return absl::StrCat("A simulated GPU runs the CPU's kernels, and there is none for ", op,
                      ": run it on /CPU:0, or where there is a card.");
}

// The CPU's kernel of the op that `construction` is for; nullptr, with a status, where there is none.
std::unique_ptr<OpKernel> HostKernel(OpKernelConstruction* construction) {
  auto* device = static_cast<Device*>(construction->device());
  NodeDef node = construction->def();
  auto hint = node.mutable_attr()->find("communication_hint");
  if (hint != node.mutable_attr()->end()) hint->second.set_s("ring");  // of collectives: the other is NCCL
  std::shared_ptr<const NodeProperties> properties;
  OpKernel* kernel = nullptr;
  absl::Status status = NodeProperties::CreateFromNodeDef(node, OpRegistry::Global(), &properties);
  if (status.ok()) {
    status = CreateOpKernel(DeviceType(DEVICE_CPU), device, device->GetAllocator(AllocatorAttributes()),
                            construction->function_library(), device->resource_manager(), properties,
                            construction->graph_def_version(), &kernel);
  }
  if (absl::IsNotFound(status)) status = errors::Unimplemented(Refusal(node.op()));
  if (!status.ok()) construction->CtxFailure(status);
  return std::unique_ptr<OpKernel>(kernel);
}

// Runs the host's kernel at once, beside the stream: for what launches nothing on a card either (Identity, Shape, Reshape),
// and in place of a kernel that could not be made.
class Beside : public OpKernel {
 public:
  Beside(OpKernelConstruction* construction, std::unique_ptr<OpKernel> host)
      : OpKernel(construction), host_(std::move(host)) {}
  void Compute(OpKernelContext* context) override { host_->Compute(context); }
  bool IsExpensive() override { return host_ != nullptr && host_->IsExpensive(); }

 private:
  const std::unique_ptr<OpKernel> host_;
};

// Runs what waits (functions, queues, collectives) as the host does: never on the stream.
class Waiting : public AsyncOpKernel {
 public:
  Waiting(OpKernelConstruction* construction, std::unique_ptr<OpKernel> host)
      : AsyncOpKernel(construction), host_(std::move(host)) {}
  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    host_->AsAsync()->ComputeAsync(context, std::move(done));
  }

 private:
  const std::unique_ptr<OpKernel> host_;
};

// Access to OpKernelContext::params_, which is private: an explicit instantiation may name it.
template <auto Member>
struct ParamsOf {
  friend OpKernelContext::Params* Params(OpKernelContext* context) { return context->*Member; }
};
OpKernelContext::Params* Params(OpKernelContext* context);
template struct ParamsOf<&OpKernelContext::params_>;

// Runs the host's kernel on the device's stream. Asynchronous, so that an op that waits for its turn holds no thread.
class Streamed : public AsyncOpKernel {
 public:
  Streamed(OpKernelConstruction* construction, std::unique_ptr<OpKernel> host)
      : AsyncOpKernel(construction), synchronous_(construction, std::move(host)) {}

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const auto stream = StreamOf(context);
    stream->Enqueue([this, context, done = std::move(done)] {
      RunHost(context);
      done();
    });
  }
  void Compute(OpKernelContext* context) override {
    StreamOf(context)->Run([this, context] { RunHost(context); });
  }

 private:
  static std::shared_ptr<Stream> StreamOf(OpKernelContext* context) {
    return static_cast<SimulatedGpu*>(context->device()->UnderlyingDevice())->stream();
  }

  void RunHost(OpKernelContext* context) {
    OpKernelContext::Params* params = Params(context);
    params->op_kernel = &synchronous_;  // OP_REQUIRES ends the process where a context is an asynchronous kernel's
    StepStatsCollectorInterface* collector = context->stats_collector();
    if (NodeExecStatsInterface* stats = collector == nullptr ? nullptr : collector->CreateNodeExecStats(&def())) {
      Traced(context, stats);
    } else {
      synchronous_.Compute(context);
    }
    params->op_kernel = this;
  }

  // Notes when the op really ran, in a lane of the trace that is named as TensorFlow's tracer of cards names it.
  void Traced(OpKernelContext* context, NodeExecStatsInterface* stats) {
    stats->SetScheduled(Env::Default()->NowNanos());
    stats->RecordExecutorStarted();
    stats->RecordComputeStarted();
    synchronous_.Compute(context);
    stats->RecordComputeEnded();
    stats->RecordExecutorEnded();
    stats->Done(absl::StrCat(context->device()->name(), "/stream:all"));
  }

  Beside synchronous_;
};

// Synchronous kernels that run other code, which may want the same GPU.
bool RunsOthers(absl::string_view op) {
  return absl::StrContains(op, "Iterator") || absl::StrContains(op, "Dataset") || absl::StrContains(op, "PyFunc") ||
         absl::StrContains(op, "Stage") || absl::StrContains(op, "Buffering");
}

class KernelFactory : public kernel_factory::OpKernelFactory {
 public:
  OpKernel* Create(OpKernelConstruction* construction) override {
    std::unique_ptr<OpKernel> host = HostKernel(construction);
    if (host != nullptr && host->AsAsync() != nullptr) return new Waiting(construction, std::move(host));
    if (host == nullptr || !host->IsExpensive() || RunsOthers(construction->def().op())) {
      return new Beside(construction, std::move(host));
    }
    return new Streamed(construction, std::move(host));
  }
};

class RefusingFactory : public kernel_factory::OpKernelFactory {
 public:
  OpKernel* Create(OpKernelConstruction* construction) override {
    construction->CtxFailure(errors::Unimplemented(Refusal(construction->def().op())));
    return new Beside(construction, nullptr);
  }
};

// A kernel of ours before each that the CUDA build has for a GPU, and for the collectives, which have one for any device.
int RegisterKernels(const KernelList& registry) {
  std::set<std::string> on_host;
  for (const KernelDef& kernel : registry.kernel()) {
    if (kernel.device_type() == DEVICE_CPU || kernel.device_type() == DEVICE_DEFAULT) on_host.insert(kernel.op());
  }
  int registered = 0;
  for (const KernelDef& kernel : registry.kernel()) {
    const bool collective = kernel.device_type() == DEVICE_DEFAULT && absl::StartsWith(kernel.op(), "Collective");
    if (!collective && kernel.device_type() != DEVICE_GPU) continue;
    const OpDef* op = nullptr;
    if (!OpRegistry::Global()->LookUpOpDef(kernel.op(), &op).ok()) continue;
    auto* ours = new KernelDef(kernel);  // the registry keeps it
    ours->set_device_type(DEVICE_GPU);
    ours->set_priority(kernel.priority() + kKernelPriority);
    const bool refused = absl::StrContains(kernel.op(), "Xla") || (!collective && on_host.count(kernel.op()) == 0);
    std::unique_ptr<kernel_factory::OpKernelFactory> factory;
    if (refused) {
      factory = std::make_unique<RefusingFactory>();
    } else {
      factory = std::make_unique<KernelFactory>();
    }
    kernel_factory::OpKernelRegistrar registrar(ours, "AcrossSimulatedGpu", std::move(factory));
    registered++;
  }
  return registered;
}

// -------------------------------------------------------------------------------------------------------------- XLA

// A function with jit_compile=True is compiled on any other device. On a GPU it runs as any function does: what compiles it
// for a card asks the device for a stream, and ends the process where there is none.
class NotForGpus : public XlaKernelCreator {
 public:
  bool CanCreateKernel(const FunctionLibraryRuntime& runtime,
                       const std::shared_ptr<const NodeProperties>& properties) const override {
    return runtime.device()->device_type() != DEVICE_GPU && XlaKernelCreator::CanCreateKernel(runtime, properties);
  }
};

// Without this, ops on a GPU are gathered into clusters for XLA where somebody turns it on for whole graphs (set_jit).
void LeaveGpusUnclustered() {
  const XlaOpRegistry::DeviceRegistration* registration = nullptr;
  if (XlaOpRegistry::GetCompilationDevice(DEVICE_GPU, &registration)) {
    const_cast<XlaOpRegistry::DeviceRegistration*>(registration)->autoclustering_policy =
        XlaOpRegistry::AutoclusteringPolicy::kIfExplicitlyRequested;
  }
}

}  // namespace
}  // namespace across

// ------------------------------------------------------------------------------------------------ what Python calls

extern "C" {

// Which TensorFlow it was built for; the command that builds it says so.
const char* across_gpu_tensorflow() { return ACROSS_TENSORFLOW; }

// Whether so many bytes can be mapped here.
int across_gpu_has_room(int64_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return 0;
  munmap(pages, bytes);
  return 1;
}

// Make TensorFlow know our GPUs, of which there are none yet. `recorded`: a serialized KernelList to follow in place of the
// registry of this build, or nullptr. Returns how many kernels were registered; -1 if `recorded` is no KernelList. Call it once.
int across_gpu_register(const void* recorded, int64_t bytes) {
  tensorflow::KernelList registry;
  if (recorded == nullptr) {
    registry = tensorflow::GetAllRegisteredKernels();
  } else if (!registry.ParseFromArray(recorded, static_cast<int>(bytes))) {
    return -1;
  }
  const int registered = across::RegisterKernels(registry);
  tensorflow::DeviceFactory::Register(tensorflow::DEVICE_GPU, std::make_unique<across::Factory>(), across::kDevicePriority,
                                      /*is_pluggable_device=*/true);
  (void)tensorflow::CopyTensor::Register(tensorflow::DeviceType(tensorflow::DEVICE_GPU),
                                         tensorflow::DeviceType(tensorflow::DEVICE_GPU), across::BetweenGpus,
                                         /*is_pluggable_device=*/true);  // or the CUDA build's would be taken
  tensorflow::RegisterDefaultCustomKernelCreator(new across::NotForGpus);
  across::LeaveGpusUnclustered();
  if (std::getenv("TF_CPP_MIN_LOG_LEVEL") == nullptr) {  // nobody asked for a log
    absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);  // grappler asks CUDA about each GPU, and complains
  }
  return registered;
}

// From now on there are `count` GPUs of `bytes` each. Call it before TensorFlow makes its devices.
void across_gpu_set(int count, int64_t bytes) {
  across::gpu_count = count;
  across::gpu_bytes = bytes;
}

// Share the GPUs' bytes with all programs that name the same file. Returns 0 where it cannot be used. Call it before that, too.
int across_gpu_share(const char* path) { return across::Cards::Get().Share(path); }

// How many bytes of a GPU nobody has taken.
int64_t across_gpu_free(int gpu) { return across::Cards::Get().Free(gpu); }

struct AcrossGpuTraffic {
  char source[16];
  char target[16];
  int64_t copies;
  int64_t bytes;
};

// What was copied since the process began, into at most `most` rows; returns how many pairs there are.
int across_gpu_traffic(AcrossGpuTraffic* rows, int most) {
  int at = 0;
  for (const auto& [pair, count] : across::Traffic::Get().Counts()) {
    if (at < most) {
      AcrossGpuTraffic row{};
      std::strncpy(row.source, pair.first.c_str(), sizeof(row.source) - 1);
      std::strncpy(row.target, pair.second.c_str(), sizeof(row.target) - 1);
      row.copies = count.copies;
      row.bytes = count.bytes;
      rows[at] = row;
    }
    at++;
  }
  return at;
}

// Slow each copy down to latency + bytes / rate, one after the other for each pair; a rate of 0: as fast as it goes.
void across_gpu_slow(double bytes_per_second, double latency_seconds) {
  across::Traffic::Get().Slow(bytes_per_second, latency_seconds);
}

}  // extern "C"
