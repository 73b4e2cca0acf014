#include "store/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "store/files.h"
#include "store/folder.h"
#include "store/segment_format.h"

namespace ctrlab::embedding {

Status ReadManifest(const std::string& folder, bool* there, Manifest* manifest) {
  const std::string path = folder + "/MANIFEST";
  const OwnedFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  *there = file.fd() >= 0 || errno != ENOENT;
  if (!*there) return Status();
  struct stat about;
  if (file.fd() < 0 || fstat(file.fd(), &about) != 0) return SystemError("Can't read " + path);
  std::string bytes(about.st_size, 0);
  if (Status status = ReadFully(file.fd(), path, bytes.data(), std::ssize(bytes), 0); !status.ok()) return status;
  ManifestHeader header;
  std::memcpy(&header, bytes.data(), std::min(sizeof header, bytes.size()));
  if (std::memcmp(header.magic, ManifestHeader().magic, sizeof header.magic) == 0 && header.version > kManifestVersion) {
    return Status("Manifests up to version " + std::to_string(kManifestVersion) + " can be read; " + path + " has version " +
                  std::to_string(header.version) + ": a newer ctrlab wrote it.");
  }
  if (bytes.size() != sizeof header + header.segments * sizeof(uint64_t) ||
      std::memcmp(header.magic, ManifestHeader().magic, 8) != 0 || header.crc != header.Crc(bytes.data() + sizeof header)) {
    return Status("A store's manifest must be as it was written; " + path +
                  " is damaged; restore it from a copy, or remove it to take the segments that there are.");
  }
  *manifest = {header.next, header.durable, std::vector<uint64_t>(header.segments)};
  if (header.segments) std::memcpy(manifest->segments.data(), bytes.data() + sizeof header, bytes.size() - sizeof header);
  return Status();
}

Status WriteManifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = folder + "/MANIFEST", fresh = path + ".new";
  ManifestHeader header;
  header.next = manifest.next, header.durable = manifest.durable, header.segments = manifest.segments.size();
  header.crc = header.Crc(manifest.segments.data());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(manifest.segments.data()), manifest.segments.size() * sizeof(uint64_t));
  if (Status status = WriteFile(fresh, bytes); !status.ok()) return status;
  // The segments' names must be durable before the list that names them, and the list before any file is deleted.
  if (Status status = SyncFolder(folder); !status.ok()) return status;
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return SystemError("Can't rename " + fresh);
  return SyncFolder(folder);
}

}  // namespace ctrlab::embedding
