"""Plain English that no reward sees and nothing is trained on: written for this, about this and that."""

from typing import Final

TEXTS: Final = tuple(
    " ".join(text.split())
    for text in """
The harbour froze twice that winter. Fishermen walked out over the ice with saws and cut long channels, so that the
boats could reach open water before noon. By evening the channels had closed again, and the work of the morning was
gone. Nobody complained; it was how the season had always been.

A glass of water left by an open window loses a little of itself every hour. The fastest molecules at its surface
escape into the air, and those that stay behind are slower on average, which is why the rest of the water grows
slightly cooler than the room around it.

When the town council met to discuss the bridge, only three people came to listen. Two of them owned shops on the far
bank and wanted the repairs to start at once. The third was a retired engineer, who asked how deep the river was in
spring and received no answer.

My grandmother kept her recipes in a biscuit tin, written on the backs of envelopes. None of them mentioned an oven
temperature or a time. They said things like: bake it until the kitchen smells right, and do not open the door before
the dog wakes up.

Bees do not see red, but they see ultraviolet light, which we cannot. A flower that looks plain yellow to a person may
carry bright lines leading to its centre, like the markings on a runway, visible only to the insects that it hopes to
attract.

The first train of the day left at a quarter past five and carried mostly bakers and nurses. They knew each other by
sight and hardly ever spoke. When one of them was missing, the others noticed, and the conductor would wait half a
minute longer than the timetable allowed.

To divide a cake fairly between two children, let one of them cut it and the other choose. The one who cuts has every
reason to make the pieces equal. With three children the problem becomes much harder, and mathematicians have written
long papers about it.

He had promised to paint the fence before the guests arrived, and he did, though only the side that faced the road. The
other side stayed grey for eleven years. Visitors who came in through the garden gate always remarked on it, and he
always said that it was next.

Salt was once so valuable that soldiers were partly paid in it, or so the story goes. Historians doubt it, because the
records do not quite say so. What is certain is that roads were built to carry it, and that towns grew rich by taxing
everyone who used them.

The library stayed open during the storm, because the librarian lived upstairs and saw no reason to close. Four readers
spent the night between the shelves. In the morning they had coffee together, and two of them discovered that they had
borrowed the same book for years.

Sound travels about four times faster in water than in air. A swimmer who hears a boat has trouble telling where it is,
since the noise reaches both ears at almost the same moment, and the small delay by which we usually judge direction
has nearly vanished.

There was only one chair in the waiting room, and it was broken. The doctor had meant to replace it when she took over
the practice. Patients leaned against the wall, read the same poster about ticks, and agreed that she was the best
doctor the valley had ever had.

A good map leaves things out. If it showed every stone and every tree, it would be as large as the country and of no
use to anybody. What the maker chooses to drop, and what remains, depends on who will hold it: a sailor, a hiker or a
tax collector.

The children built a dam across the stream behind the school with branches and mud. It held for two days. Then the
water found a way around it on the left, where the bank was soft, and by Friday there was a small new island with a
single fern on it.

Old wooden ships were never quite dry inside. Water came in between the planks, slowly, and every watch spent part of
its time at the pumps. A captain could tell the weather of the past night from how long the pumping took in the
morning.

She learned to drive at the age of sixty, after her husband had sold his taxi. The instructor expected to be patient,
and found that he was the one who was nervous. She had sat in the passenger seat for forty years and knew every corner
of the city.

Iron rusts faster near the sea because the salt in the air helps the electric currents that rusting consists of.
Painting a railing keeps oxygen and water away from the metal. One scratch is enough, and the rust creeps on beneath
the paint where no one can see it.

The committee chose the second design because it cost less. Ten years later it had cost more, since its flat roof
leaked every autumn. The architect of the first design, by then very old, was invited to the reopening and politely
said that she liked the new windows.

Most of the stars that we can see without a telescope are brighter than the sun. That is no coincidence: the faint ones
are far more common, but they are invisible at such distances. What we call the night sky is a list of exceptions.

On market days the square smelled of onions and wet dogs. A man sold clocks that did not run, and told everyone so.
People bought them anyway for their painted faces, and hung them in kitchens, where they were right twice a day like
any other stopped clock.

A seed can wait for years. Some need a frost before they will grow, others need fire, and a few must pass through the
stomach of a bird. It looks like patience, but it is closer to a lock, which opens when one particular key has turned.

The letter had been sent to the wrong address, then forwarded, then lost behind a radiator for most of a decade. When
it finally arrived, the sender and the reader had been married for six years. They read it aloud at dinner and laughed
at how formal it sounded.

Bread dough rises because yeast turns sugar into gas, and because the stretched network of proteins in the flour keeps
that gas from escaping. Knead it too little and the bubbles break; leave it too long and the network tires, and the
loaf sinks in the oven.

Nobody knew who wound the tower clock. The key hung in the sacristy, and the priest believed that the teacher did it,
while the teacher believed it was the priest. It kept perfect time until the carpenter moved away, and stopped on the
following Tuesday.
""".strip().split("\n\n")
)
