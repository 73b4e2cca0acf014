"""Four questions on the log-structured hash store."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A key has two records in two files. Which of them counts?",
        right="The one with the higher sequence number.",
        because="Each put gets the next number, and a copy keeps its own. So the number says which record is newer.",
        wrong={
            "The one in the file that was made last.": "Compaction copies old records into new files, so a new file may hold an "
            "old record.",
            "The one whose checksum fits.": "Both may be whole. A checksum does not know which record is newer.",
            "The one at the higher byte.": "Bytes of different files say nothing about time.",
        },
    ),
    Question(
        "Record 5 of 9 has a wrong checksum, and records 6 to 9 are whole. What does recovery do?",
        right="It raises an error that names the byte of record 5.",
        because="Whole records follow, so record 5 was complete once, and was damaged later. No crash in mid-write does that.",
        wrong={
            "It cuts the file before record 5.": "This would silently lose the four whole records behind it.",
            "It skips record 5 and goes on.": "An older record of the same key would silently count again.",
            "It computes a new checksum for record 5.": "Then the wrong bytes would look right for ever.",
        },
    ),
    Question(
        "Compaction takes only files of which more than half is garbage. At most, how large is write amplification?",
        right="2: one copy for each record that is got rid of.",
        because="In a file with half garbage there is one live record per garbage record. The bound is 1 / limit = 1 / 0.5.",
        wrong={
            "1.5: half a copy for each put.": "Half of the file is copied, but only the other half is got rid of: that is one "
            "copy for each.",
            "3: two copies for each record that is got rid of.": "This is the bound at a limit of a third.",
            "There is none, if the disk is nearly full.": "The limit alone decides. A full disk only forces a smaller limit.",
        },
    ),
    Question(
        "Compaction has written its copies, and the process dies before the old file is deleted. What is lost?",
        right="Nothing: some records now lie in two files.",
        because="Both copies have the same sequence number and the same bytes, so it does not matter which of them is found.",
        wrong={
            "The live records of the old file.": "They are in the old file and in the new one. Only the reverse order, delete "
            "and then copy, could lose them.",
            "The copies, because their file is not listed in the index.": "The index is built anew from all files.",
            "The tombstones that were not copied.": "The old file still holds them, too.",
        },
    ),
)
