/*
 * Paces test traffic: redirects a frame to a port whenever one is due, and drops it otherwise.
 *
 * The kernel runs this program in a loop (BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES), each time with
 * a frame of zeros. Like the sender of perftrend.measure.embedded.generator, it catches up a short delay at
 * once, a longer one gradually, and lets the rest extend the trial.
 *
 * generator.py has the layout of struct pacer as well. To build pacer.bpf.bin: python -m perftrend.measure.xdp.build
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

enum { XDP_DROP = 1 };

enum {
	PORTS = 2,
	HEADER_BYTES = 42, /* Ethernet, IPv4 and UDP */
	MOST_FRAMES = 256 * 24,
	FRACTION_BITS = 20, /* of a time in nanoseconds: a rate is accurate to less than 0.1 in a million */
	FASTER = 50, /* while catching up gradually, the rate is higher by one part in this number */
};

struct frame {
	u64 header[5];
	u16 end_of_header;
	u16 length; /* in bytes, without the Ethernet checksum */
	u32 unused;
};

struct port {
	u32 interface;
	u32 next; /* frame */
	u64 left;
	u64 sent;
};

/* Times are relative to the start of the trial and have FRACTION_BITS, except start and end. */
struct pacer {
	u64 period; /* between two frames, of both ports together */
	u64 catch_up; /* the longest delay that is caught up at once */
	u64 owed_at_most; /* the longest further delay that is caught up gradually */
	u32 frames; /* prepared for each port */
	u32 longest; /* frame, in bytes */
	u64 start; /* in nanoseconds; 0 before the first frame */
	u64 end; /* when the last frame was sent so far */
	u64 now;
	u64 due; /* time of the next frame */
	u64 owed;
	struct port port[PORTS];
	struct frame frame[PORTS][MOST_FRAMES];
};

/* The only variable: user space replaces the references to it by those to the value of a map. */
struct pacer pacer;

_Static_assert(sizeof(struct frame) == 48, "generator.py");
_Static_assert(sizeof(struct pacer) == 120 + 2 * MOST_FRAMES * 48, "generator.py");

/* Returns whether a frame is due. */
static inline int is_due(u64 now)
{
	s64 late;
	u64 paid;

	if (pacer.owed) {
		paid = (now - pacer.now) / FASTER;
		if (paid > pacer.owed)
			paid = pacer.owed;
		pacer.owed -= paid;
		pacer.due -= paid;
	}
	pacer.now = now;
	late = now - pacer.due;
	if (late < 0)
		return 0;
	if (late > (s64)pacer.catch_up) {
		pacer.due = now - pacer.catch_up;
		pacer.owed += late - pacer.catch_up;
		if (pacer.owed > pacer.owed_at_most)
			pacer.owed = pacer.owed_at_most;
	}
	return 1;
}

__attribute__((section("xdp"), used)) int pace(struct xdp_md *packet)
{
	struct port *port = &pacer.port[0];
	u32 number = 0, next;
	struct frame *frame;
	u64 *data, time;
	u8 *end;
	int word;

	if (pacer.port[1].left && (!port->left || port->sent > pacer.port[1].sent)) {
		port = &pacer.port[1];
		number = 1;
	}
	if (!port->left)
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
	data = (u64 *)(long)packet->data;
	end = (u8 *)(long)packet->data_end;
	if ((u8 *)data + HEADER_BYTES > end)
		return XDP_DROP;
	for (word = 0; word < 5; word++)
		data[word] = frame->header[word];
	*(u16 *)(data + 5) = frame->end_of_header;

	port->next = next + 1 < pacer.frames ? next + 1 : 0;
	port->left--;
	port->sent++;
	pacer.due += pacer.period;
	pacer.end = time;
	return redirect(port->interface, 0);
}
