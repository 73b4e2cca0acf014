#include "processor/verified.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "processor/servable.h"
#include "store/files.h"
#include "table/messages.h"

namespace ctrlab::processor {

namespace {

constexpr int kOfTheMoment[] = {EMFILE, ENFILE, ENOMEM, ENOSPC, EDQUOT, EIO, ESTALE, EAGAIN, EINTR};
constexpr size_t kPieceBytes = 1 << 20, kSealDigits = 16;
constexpr int64_t kUnsealed = 1;  // the format of manifests without a checksum of their own
constexpr std::string_view kSeal = ",\n \"sha256\": \"", kEnd = "\"\n}\n";
constexpr size_t kDigits = 2 * SHA256_DIGEST_LENGTH, kSealBytes = kSeal.size() + kDigits + kEnd.size();

class Sha256 {
 public:
  Sha256() { SHA256_Init(&state_); }
  void Add(const char* data, size_t size) { SHA256_Update(&state_, data, size); }
  std::string Hex() {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &state_);
    std::string hex;
    for (const uint8_t byte : digest) {
      for (const int digit : {byte >> 4, byte & 15}) hex += "0123456789abcdef"[digit];
    }
    return hex;
  }

 private:
  SHA256_CTX state_;
};

std::string HexOf(std::string_view bytes) {
  Sha256 sum;
  sum.Add(bytes.data(), bytes.size());
  return sum.Hex();
}

Answer Unreadable(const std::string& path, int error) {
  return Refusal(IsOfTheMoment(error) ? Code::kUnavailable : Code::kFailed, "A version's files can be read; ", path,
                 " can't be: ", std::strerror(error), ".");
}

Answer Damaged(const std::string& path, const char* how, const char* cure = "export the model again") {
  return Refusal(Code::kFailed, "A version is served as it was exported; ", path, " ", how, ": ", cure, ".");
}

// Calls take(data, size) for the pieces of a file.
template <class Take>
Answer ReadPieces(const std::string& path, const Take& take) {
  const embedding::OwnedFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return Unreadable(path, errno);
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
  const std::unique_ptr<char[]> piece(new char[kPieceBytes]);
  for (;;) {
    const ssize_t n = read(file.fd(), piece.get(), kPieceBytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unreadable(path, errno);
    if (n == 0) return {};
    take(piece.get(), n);
  }
}

Answer ReadText(const std::string& path, std::string* text) {
  return ReadPieces(path, [text](const char* data, size_t size) { text->append(data, size); });
}

// Of a file: what the manifest says, and whether it is there.
struct File {
  std::optional<std::pair<int64_t, std::string_view>> said;  // bytes, SHA-256
  bool there = false;
};

// Every file below a folder but its manifest, by its path in it.
Answer FindFiles(const std::string& folder, std::map<std::string, File>* files) {
  namespace fs = std::filesystem;
  std::error_code problem;
  for (auto each = fs::recursive_directory_iterator(folder, problem); !problem && each != fs::recursive_directory_iterator();
       each.increment(problem)) {
    std::error_code gone;
    const std::string name = each->path().lexically_relative(folder).generic_string();
    if (name != kManifest && each->is_regular_file(gone)) (*files)[name].there = true;
  }
  return problem ? Unreadable(folder, problem.value()) : Answer{};
}

Answer ReadListed(const simdjson::dom::element& manifest, const std::string& path, std::map<std::string, File>* files) {
  simdjson::dom::object listed;
  if (manifest["files"].get(listed) != simdjson::SUCCESS) return Damaged(path, "lists no files");
  for (const auto& [name, each] : listed) {
    int64_t bytes;
    std::string_view sum;
    if (each["bytes"].get(bytes) != simdjson::SUCCESS || each["sha256"].get(sum) != simdjson::SUCCESS) {
      return Damaged(path, "does not say what its files are");
    }
    (*files)[std::string(name)].said = {bytes, sum};
  }
  return {};
}

// The manifest's checksum is its end, after all bytes that it is of.
bool IsSealed(std::string_view text) {
  if (text.size() < kSealBytes || !text.ends_with(kEnd)) return false;
  const std::string_view body = text.substr(0, text.size() - kSealBytes), seal = text.substr(body.size());
  return seal.starts_with(kSeal) && seal.substr(kSeal.size(), kDigits) == HexOf(body);
}

}  // namespace

bool IsOfTheMoment(int error) {
  return std::find(std::begin(kOfTheMoment), std::end(kOfTheMoment), error) != std::end(kOfTheMoment);
}

bool IsOfTheMoment(std::string_view sentence) {
  const auto holds = [&](const char* text) { return sentence.find(text) != sentence.npos; };
  const auto says = [&](int error) {  // TensorFlow writes a semicolon before it
    const std::string text = std::strerror(error);
    return holds((": " + text).c_str()) || holds(("; " + text).c_str());
  };
  return holds(embedding::OutOfMemory().text()) || std::any_of(std::begin(kOfTheMoment), std::end(kOfTheMoment), says);
}

Answer SealOf(const std::string& folder, std::string* seal) {
  std::string text;
  if (Answer bad = ReadText(folder + "/" + kManifest, &text); !bad.ok()) return bad;
  *seal = HexOf(text).substr(0, kSealDigits);
  return {};
}

Answer Verify(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  std::string text;
  if (Answer bad = ReadText(path, &text); !bad.ok()) return bad;
  simdjson::dom::parser parser;
  simdjson::dom::element manifest;
  int64_t format;
  const auto parsed = parser.parse(text).get(manifest);
  if (parsed == simdjson::MEMALLOC) throw std::bad_alloc();
  if (parsed != simdjson::SUCCESS || manifest["format"].get(format) != simdjson::SUCCESS) {
    return Damaged(path, "is no manifest");
  }
  const bool has_seal = manifest["sha256"].error() == simdjson::SUCCESS;
  if ((format != kUnsealed || has_seal) && !IsSealed(text)) return Damaged(path, "is not what was exported");
  std::map<std::string, File> files;
  if (Answer bad = ReadListed(manifest, path, &files); !bad.ok()) return bad;
  if (Answer bad = FindFiles(folder, &files); !bad.ok()) return bad;
  for (const auto& [name, file] : files) {
    const std::string place = folder + "/" + name;
    if (!file.there) return Damaged(place, "is missing");
    if (!file.said) return Damaged(place, "is not in its manifest", "take it away, or export the model again");
    Sha256 sum;
    int64_t bytes = 0;
    const auto add = [&](const char* data, size_t size) {
      sum.Add(data, size);
      bytes += static_cast<int64_t>(size);
    };
    if (Answer bad = ReadPieces(place, add); !bad.ok()) return bad;
    if (*file.said != std::pair(bytes, std::string_view(sum.Hex()))) return Damaged(place, "is not what was exported");
  }
  return {};
}

}  // namespace ctrlab::processor
