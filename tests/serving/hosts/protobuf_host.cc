// A server that is linked to a protobuf and a gRPC of its own: it answers what comes by gRPC with the processor.
//
//   protobuf_host FOLDER FILE    sends itself the PredictRequest in FILE three times, and writes the last answer
//
// As a shared library: `works` is what a program may open after the processor.

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "processor/processor_c.h"

// Whether its protobuf parses, writes, prints and describes.
extern "C" int works() {
  google::protobuf::Struct read, again;
  if (!google::protobuf::util::JsonStringToMessage(R"({"a": [1, {"b": "c"}], "d": null})", &read).ok()) return 0;
  if (!again.ParseFromString(read.SerializeAsString())) return 0;
  google::protobuf::Arena arena;
  auto* const copy = google::protobuf::Arena::CreateMessage<google::protobuf::Struct>(&arena);
  copy->CopyFrom(again);
  return copy->fields().size() == 2 && copy->DebugString() == read.DebugString() &&
         google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName("google.protobuf.Struct") != nullptr;
}

namespace {

std::string Text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

grpc::ByteBuffer Buffer(const char* data, size_t size) {
  const grpc::Slice slice(data, size);
  return {&slice, 1};
}

class Call : public grpc::ServerGenericBidiReactor {
 public:
  explicit Call(ctrlab_processor processor) : processor_(processor) { StartRead(&asked_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish({grpc::StatusCode::INVALID_ARGUMENT, "no message"});
    const std::string body = Text(asked_);
    const ctrlab_processor_request request = {sizeof request, CTRLAB_PROCESSOR_PREDICT, body.data(), body.size(), -1};
    ctrlab_processor_response response = {};
    response.struct_size = sizeof response;
    char problem[500];
    if (ctrlab_processor_process(processor_, &request, &response, problem, sizeof problem) != CTRLAB_PROCESSOR_OK) {
      return Finish({grpc::StatusCode::INTERNAL, problem});
    }
    answer_ = Buffer(response.data, response.size);
    ctrlab_processor_free(&response);
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), works() ? grpc::Status::OK : grpc::Status::CANCELLED);
  }

  void OnDone() override { delete this; }

 private:
  const ctrlab_processor processor_;
  grpc::ByteBuffer asked_, answer_;
};

class Service : public grpc::CallbackGenericService {
 public:
  explicit Service(ctrlab_processor processor) : processor_(processor) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override { return new Call(processor_); }

 private:
  const ctrlab_processor processor_;
};

grpc::Status Ask(grpc::GenericStub* stub, const std::string& body, std::string* answer) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::ByteBuffer answered;
  grpc::Status status;
  const auto call =
      stub->PrepareUnaryCall(&context, "/tensorflow.serving.PredictionService/Predict", Buffer(body.data(), body.size()), &queue);
  call->StartCall();
  call->Finish(&answered, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  *answer = Text(answered);
  return status;
}

int Fail(const std::string& what) {
  std::puts(what.c_str());
  return 1;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 || !works()) return Fail("its protobuf does not work before");
  char problem[500];
  ctrlab_processor processor;
  if (ctrlab_processor_initialize(words[1], nullptr, &processor, problem, sizeof problem) != CTRLAB_PROCESSOR_OK) {
    return Fail(problem);
  }
  if (!works()) return Fail("its protobuf does not work beside a processor");
  std::ifstream file(words[2], std::ios::binary);
  const std::string body(std::istreambuf_iterator<char>(file), {});
  std::string answer;
  {
    Service service(processor);
    grpc::ServerBuilder builder;
    const auto server = builder.RegisterCallbackGenericService(&service).BuildAndStart();
    grpc::GenericStub stub(server->InProcessChannel({}));
    for (int i = 0; i < 3; ++i) {
      if (const grpc::Status status = Ask(&stub, body, &answer); !status.ok()) return Fail(status.error_message());
    }
    server->Shutdown();
  }
  if (ctrlab_processor_release(processor, problem, sizeof problem) != CTRLAB_PROCESSOR_OK) return Fail(problem);
  if (!works()) return Fail("its protobuf does not work after");
  std::fwrite(answer.data(), 1, answer.size(), stdout);
}
