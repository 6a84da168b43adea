# SPDX-License-Identifier: Apache-2.0
"""Sixteen ranks add up float16 numbers whose sum shows the order; rank 0 prints it.

In rank order each of the small numbers is lost beside 2049, which then rounds down to 2048;
together they are not, and it rounds up to 2050.
"""

import ctypes
import struct

from horovod.common import operations
from horovod.common.basics import HorovodBasics
from horovod.common.library import library

hvd = HorovodBasics()
hvd.init()
own = {0: 2048.0, 1: 1.0}.get(hvd.rank(), 2.0**-13)
buffer = (ctypes.c_char * 2).from_buffer(bytearray(struct.pack("e", own)))
tensor = operations.make_tensor(ctypes.addressof(buffer), (1,), library.enum("HVD_FLOAT16"))
request = operations.make_request("sum", operations.ALLREDUCE, tensor, tensor)
request.reduce_op = library.enum("HVD_SUM")
operations.run(request, buffer)
if hvd.rank() == 0:
    print("sum", struct.unpack("e", buffer.raw)[0], flush=True)
hvd.shutdown()
