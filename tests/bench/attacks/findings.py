"""What a review once found open, in words; every one has an attack, or says where else it is shown."""

FINDINGS: dict[str, str] = {
    # without an account, or by one text
    "a header that does not end stops the web": "",
    "a text that is slow to draw stops the web": "",
    "a text that is slow to search for secrets stops the web": "",
    "a name twice in an anonymous body costs minutes": "",
    "a model server that never answers stops everybody's work": "",
    "deep metadata makes the gateway unready for good": "",
    # between people, and with an account
    "agents of one project read each other's conversations": "",
    "agents of one project teach on each other's conversations": "",
    "forgetting reaches into other projects": "",
    "a backup brought back breaks the audit": "make bench BENCH=drill",
    "sign-ins at once take the memory and every connection": "",
    "requests that wait hold every connection": "",
    "a calendar that costs more each day": "",
    "anybody owns a project, and reaches others from there": "",
    "a model server's answer has no end": "",
    "slow bodies hold the gateway": "",
    "anonymous uploads fill the disk": "",
    "the application's database role may do everything": "",
    "the training box's broker address opens everything": "",
    # smaller
    "forwarded addresses are believed": "",
    "a webhook's answer breaks pages for good": "",
    "tokens outlive what they came from": "",
    "figures tell tenants' addresses": "",
    "large conversations keep leases from being renewed": "",
    "live sockets hear too much, for too long, from anywhere": "",
    "a dump holds live sessions": "",
    "trouble of the database is an error of ours": "",
    "the gateway is ready on a full disk": "",
    "numbers and depths break the gateway": "",
    "a box's odd manifest is never settled": "",
    "the engine obeys whoever reaches it": "",
    "token budgets are overshot at once": "",
    "the API's schema is made anew for anybody": "",
    "nobody changes their own password, or sees their sessions": "",
    "the test of a model server tells which names are known inside": "",
}
"""Words -> the command that shows it, where no attack here does."""
