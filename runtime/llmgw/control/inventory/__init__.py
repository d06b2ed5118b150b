"""What there is: nodes as they report themselves, and what each of them owes."""
