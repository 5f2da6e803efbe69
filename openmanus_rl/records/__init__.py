"""What is recorded: ids, statuses, kinds, codes and types of rows; mostly generated from the migrations."""
