from tentalis.garbage import spare_imports

spare_imports()
