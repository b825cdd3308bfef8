"""Tools that somebody else wrote: importing these modules declares them."""
