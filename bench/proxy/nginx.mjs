import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, listening } from '../decision/free-port.mjs'
import { MEASURED, startProgram } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

/** nginx with proxy_pass and one limit_req by a header. */
export async function startNginx(file, { backend, limit, workers = 1 }) {
  const directory = newScratchDirectory()
  const port = await freePort()
  const path = join(directory, 'nginx.conf')
  writeFileSync(path, configuration({ directory, port, backend, limit, workers }))
  const child = startProgram(MEASURED, file, ['-e', 'stderr', '-p', directory, '-c', path])
  await listening(port)
  return Object.assign(child, { port })
}

// Connections to the backend are kept, answers of 64 KB fit into memory, events are passed on as they come, and
// nothing is logged. The backend is told who asked, as by edge.
function configuration({ directory, port, backend, limit, workers }) {
  return `
daemon off;
worker_processes ${workers};
pid ${directory}/nginx.pid;
error_log stderr crit;
events { worker_connections 32768; }
http {
  access_log off;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  keepalive_requests 1000000000;
  limit_req_zone $http_x_api_key zone=keys:16m rate=1r/s;
  limit_req_status 429;
  upstream backend {
    server 127.0.0.1:${backend.port};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    limit_req zone=keys burst=${limit} nodelay;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_buffers 16 16k;
    proxy_max_temp_file_size 0;
    location / { proxy_pass http://backend; }
    location /streams/ {
      proxy_pass http://backend;
      proxy_buffering off;
    }
  }
}
`
}
