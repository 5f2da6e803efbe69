"""What a call returned from: files that outlive the process, until they are delivered."""
