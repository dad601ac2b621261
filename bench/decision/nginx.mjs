import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MEASURED, startProgram } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { freePort, listening } from './free-port.mjs'

/** nginx with one limit_req by a header. */
export async function startNginx(file, limit) {
  const directory = newScratchDirectory()
  const port = await freePort()
  const path = join(directory, 'nginx.conf')
  writeFileSync(path, configuration(directory, port, limit))
  const child = startProgram(MEASURED, file, ['-e', 'stderr', '-p', directory, '-c', path])
  await listening(port)
  return Object.assign(child, { port })
}

// A `return` would answer before limit_req is asked; empty_gif is a content handler, and the cheapest there is. The zone
// has room for a million keys. A rate of one a second leaves them alive; the burst is the limit.
function configuration(directory, port, limit) {
  return `
daemon off;
worker_processes 1;
pid ${directory}/nginx.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  keepalive_requests 1000000000;
  limit_req_zone $http_x_api_key zone=keys:256m rate=1r/s;
  limit_req_status 429;
  server {
    listen 127.0.0.1:${port};
    location / {
      limit_req zone=keys burst=${limit} nodelay;
      empty_gif;
    }
  }
}
`
}
