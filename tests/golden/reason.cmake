# cmake -DFINGERPRINTS=... -DCHANGELOG=... -P reason.cmake: fails unless the changelog mentions this version of the file.
# May know: both files.
# Must not know: what is in them.
file(SHA256 "${FINGERPRINTS}" hash)
string(SUBSTRING "${hash}" 0 12 hash)
file(READ "${CHANGELOG}" text)
string(FIND "${text}" "fingerprints ${hash}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "tests/golden/fingerprints.json has changed: say why in CHANGELOG.md, in an entry with the words\n"
                      "  fingerprints ${hash}\n")
endif()
message(STATUS "CHANGELOG.md explains fingerprints ${hash}")
