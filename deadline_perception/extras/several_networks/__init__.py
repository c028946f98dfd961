"""Several networks on one processor: quality levels, feasibility, allocation, execution."""
