"""The only importer of the compiled module; one typed wrapper module for each area of `spansieve.h`."""
