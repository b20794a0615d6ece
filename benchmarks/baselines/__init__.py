"""What the numbers of this project are compared with, written the way the compared systems do it."""
