"""What measures the family `musetalk`, and its networks with weights from the documented formula."""
