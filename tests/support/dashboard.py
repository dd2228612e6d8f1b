"""A coffee roastery's dashboard for machines: its page on the disk, all else in the memory."""

# Its process is a child of the kernel's: another Python takes seconds to start where it is
# emulated. It listens before it is forked, so whoever asks at once is answered.
PORT = 8000
SITE = "/root/site"
DASHBOARD = f"""
import http.client, http.server, json, os, pathlib, shutil, signal

site = pathlib.Path({SITE!r})
site.mkdir(exist_ok=True)
(site / "index.html").write_text('''<!doctype html><meta charset="utf-8"><title>Roastery</title>
<link rel="icon" href="data:,"><style>
body {{{{ margin: 0; background: {{back}}; color: {{ink}}; font: 16px/1.5 {{font}}; }}}}
header {{{{ display: flex; gap: 12px; align-items: center; padding: 24px 40px;
  background: {{head}}; }}}}
#dot {{{{ width: 16px; height: 16px; padding: 2px; box-sizing: border-box; }}}}
#dot i {{{{ display: block; height: 12px; border-radius: 6px; background: {{accent}};
  animation: pulse 1.1s ease-in-out infinite; }}}}
@keyframes pulse {{{{ 50% {{{{ opacity: .15; transform: scale(.6); }}}} }}}}
main {{{{ display: grid; grid-template-columns: {{columns}}; gap: 20px; padding: 32px 40px; }}}}
section {{{{ border: 1px solid {{accent}}; border-radius: {{radius}}; padding: 16px 20px; }}}}
b {{{{ display: block; font-size: 30px; }}}}
svg {{{{ margin: 0 40px; }}}}
</style><header><span id="dot"><i></i></span><span>Roastery, all machines running</span></header>
<main>
<section>beans in stock<b>2,847 kg</b></section><section>batches today<b>18</b></section>
<section>orders taken<b id="orders">{{orders}}</b></section><section>on time<b>97 %</b></section>
</main>{{chart}}''')

class Dashboard(http.server.BaseHTTPRequestHandler):
    orders = 0
    design = dict(back="#1d1a17", ink="#f3e9dc", head="#2b2521", accent="#d08a3e",
                  font="sans-serif", columns="1fr 1fr 1fr 1fr", radius="10px", chart="")

    def do_GET(self):
        page = (site / "index.html").read_text()
        self.answer(page.format(orders=Dashboard.orders, **Dashboard.design))

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Dashboard.orders += sent.pop("orders", 0)
        Dashboard.design |= sent
        self.answer("done")

    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments):
        pass

def tell(**what):
    asking = http.client.HTTPConnection("127.0.0.1", {PORT})
    asking.request("POST", "/", json.dumps(what))
    asking.getresponse().read()
    asking.close()

bars = "".join(
    f'<rect x="{{day * 44}}" y="{{120 - kilos}}" width="30" height="{{kilos}}" fill="#d08a3e"/>'
    for day, kilos in enumerate((27, 45, 61, 38, 90, 72, 110)))
DESIGNS = {{
    "nordic": dict(back="#f7f7f4", ink="#23303a", head="#ffffff", accent="#8fa3ad",
                   columns="1fr 1fr", radius="2px"),
    "terminal": dict(back="#031403", ink="#3bff6f", head="#062006", accent="#3bff6f",
                     font="monospace", columns="1fr", radius="0"),
    "chart": dict(chart=f'<svg width="310" height="120">{{bars}}</svg>'),
}}

server = http.server.ThreadingHTTPServer(("127.0.0.1", {PORT}), Dashboard)
serving = os.fork()
if serving == 0:
    try:
        server.serve_forever()
    finally:
        os._exit(1)
server.socket.close()
tell(orders=3)
"""
BREAK = """
os.kill(serving, signal.SIGKILL)
os.waitpid(serving, 0)
shutil.rmtree(site)
"""
