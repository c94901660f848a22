/*
 * Paces test traffic: redirects a frame to a port whenever one is due, and drops it otherwise.
 *
 * The kernel runs this program in a loop (BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES), each time with
 * a frame of zeros, into which the program writes the headers of the next flow. Like the sender of perftrend.measure.embedded.generator, it catches up a short delay at
 * once, a longer one gradually, and lets the rest extend the trial.
 *
 * generator.py has the layout of struct pacer as well. To build pacer.bpf.bin: python -m perftrend.measure.xdp.program
 *
 * It includes no headers, so that its instructions depend on nothing but the compiler.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

/* linux/bpf.h */
struct xdp_md {
	u32 data;
	u32 data_end;
};

static u64 (*ktime_get_ns)(void) = (void *)5;
static long (*redirect)(u32 interface, u64 flags) = (void *)23;
static long (*adjust_tail)(struct xdp_md *frame, int bytes) = (void *)65;
static long (*store_bytes)(struct xdp_md *frame, u32 offset, void *bytes, u32 length) = (void *)190;

enum { XDP_DROP = 1 };

#define DONE ~0ULL

enum {
	PORTS = 4, /* at most */
	HEADER_BYTES = 128, /* at most */
	MOST_FRAMES = 24,
	FIRST_HOST = 2,
	FIRST_PORT = 1024,
	FIRST_TUNNEL_PORT = 49152,
	TUNNEL_PORTS = 16384,
	FRACTION_BITS = 20, /* of a time in nanoseconds: a rate is accurate to less than 0.1 in a million */
	IDLE_AT_MOST_NS = 1000, /* between two runs; if it takes longer, the kernel delivers frames */
	FASTER = 50, /* while catching up gradually, the rate is higher by one part in this number */
};

/* A frame of the first flow. */
struct frame {
	u8 header[HEADER_BYTES];
	u32 length; /* in bytes, without the Ethernet checksum */
	u32 ip_sum; /* what the checksums are the complements of */
	u32 transport_sum;
	u32 unused;
};

struct port {
	u32 interface;
	u32 next; /* frame */
	u32 host; /* of the next flow, from 0 on */
	u32 source; /* port of the next flow, from 0 on */
	u64 left; /* frames of the trial */
	u64 sent;
	u64 progress; /* the part of them that was sent: nearly 2^63 for all, and DONE if none are left */
	u64 step; /* of progress with each frame */
};

/* Times are relative to the start of the trial and have FRACTION_BITS, except start and end. */
struct pacer {
	u64 period; /* between two frames, of all ports together */
	u64 catch_up; /* the longest delay that is caught up at once */
	u64 owed_at_most; /* the longest further delay that is caught up gradually */
	u32 frames; /* of each port; each flow has all of them */
	u32 longest; /* frame, in bytes */
	u64 start; /* in nanoseconds; 0 before the first frame */
	u64 end; /* when the last frame was sent so far */
	u64 now;
	u64 due; /* time of the next frame */
	u64 owed;
	u64 idle; /* time in which no frame was due */
	u64 waits; /* whether none was due in the last run */
	u32 hosts;
	u32 sources; /* ports */
	u32 header_bytes;
	u32 zero; /* how a transport checksum of 0 is written */
	u32 source_host; /* offset in the header, as all that follow; 0 if there is no such field */
	u32 destination_host;
	u32 source_port;
	u32 tunnel_port;
	u32 ip_checksum;
	u32 transport_checksum;
	struct port port[PORTS];
	struct frame frame[PORTS][MOST_FRAMES];
};

/* The only variable: user space replaces the references to it by those to the value of a map. */
struct pacer pacer;

_Static_assert(sizeof(struct frame) == 144, "generator.py");
_Static_assert(sizeof(struct pacer) == 128 + PORTS * (48 + MOST_FRAMES * 144), "generator.py");

/* Writes a field of two bytes, all of which have even offsets. */
static inline void put(struct frame *frame, u32 offset, u16 value)
{
	*(u16 *)(frame->header + (offset & (HEADER_BYTES - 2))) = __builtin_bswap16(value);
}

static inline u16 checksum(u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static inline void set_flow(struct frame *frame, u32 host, u32 source)
{
	u32 added = 2 * host; /* once for each address */
	u16 sum;

	put(frame, pacer.source_host, FIRST_HOST + host);
	put(frame, pacer.destination_host, FIRST_HOST + host);
	put(frame, pacer.source_port, FIRST_PORT + source);
	if (pacer.tunnel_port)
		put(frame, pacer.tunnel_port, FIRST_TUNNEL_PORT + host % TUNNEL_PORTS);
	if (pacer.ip_checksum)
		put(frame, pacer.ip_checksum, checksum(frame->ip_sum + added));
	if (pacer.transport_checksum) {
		sum = checksum(frame->transport_sum + added + source);
		put(frame, pacer.transport_checksum, sum ? sum : pacer.zero);
	}
}

/* Returns whether a frame is due. */
static inline int is_due(u64 now)
{
	s64 late;
	u64 passed = now - pacer.now, paid;

	if (pacer.waits && passed < (u64)IDLE_AT_MOST_NS << FRACTION_BITS)
		pacer.idle += passed;
	if (pacer.owed) {
		paid = passed / FASTER;
		if (paid > pacer.owed)
			paid = pacer.owed;
		pacer.owed -= paid;
		pacer.due -= paid;
	}
	pacer.now = now;
	late = now - pacer.due;
	pacer.waits = late < 0;
	if (pacer.waits)
		return 0;
	if (late > (s64)pacer.catch_up) {
		pacer.due = now - pacer.catch_up;
		pacer.owed += late - pacer.catch_up;
		if (pacer.owed > pacer.owed_at_most)
			pacer.owed = pacer.owed_at_most;
	}
	return 1;
}

/* Returns the number of the port that has sent the smallest part of its frames. */
static inline u32 least_advanced(void)
{
	u64 least = pacer.port[0].progress;
	u32 found = 0;

#pragma unroll
	for (u32 number = 1; number < PORTS; number++)
		if (pacer.port[number].progress < least) {
			least = pacer.port[number].progress;
			found = number;
		}
	return found;
}

__attribute__((section("xdp"), used)) int pace(struct xdp_md *packet)
{
	u32 number = least_advanced() % PORTS, next, length;
	struct port *port = &pacer.port[number];
	struct frame *frame;
	u64 time;

	if (port->progress == DONE)
		return XDP_DROP;
	time = ktime_get_ns();
	if (!pacer.start)
		pacer.start = time;
	if (!is_due((time - pacer.start) << FRACTION_BITS))
		return XDP_DROP;

	next = port->next;
	if (next >= MOST_FRAMES)
		return XDP_DROP;
	frame = &pacer.frame[number][next];
	if (frame->length < pacer.longest && adjust_tail(packet, (int)frame->length - (int)pacer.longest))
		return XDP_DROP;
	length = pacer.header_bytes;
	if (!length || length > HEADER_BYTES)
		return XDP_DROP;
	set_flow(frame, port->host, port->source);
	if (store_bytes(packet, 0, frame->header, length))
		return XDP_DROP;

	port->next = next + 1 < pacer.frames ? next + 1 : 0;
	port->host = port->host + 1 < pacer.hosts ? port->host + 1 : 0;
	port->source = port->source + 1 < pacer.sources ? port->source + 1 : 0;
	port->sent++;
	port->progress = --port->left ? port->progress + port->step : DONE;
	pacer.due += pacer.period;
	pacer.end = time;
	return redirect(port->interface, 0);
}
