"""Where items come from: files, addresses, stdin and databases; each as JSON items in pieces."""
