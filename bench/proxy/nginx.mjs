import { startNginxWith } from '../support/nginx.mjs'

/** nginx with proxy_pass and one limit_req by a header. */
export function startNginx(file, { backend, limit }) {
  return startNginxWith(file, 32_768, (port) => http(port, backend.port, limit))
}

// Connections to the backend are kept, answers of 64 KB fit into memory, and events are passed on as they come. The
// backend is told who asked, as by edge.
function http(port, backendPort, limit) {
  return `
  limit_req_zone $http_x_api_key zone=keys:16m rate=1r/s;
  limit_req_status 429;
  upstream backend {
    server 127.0.0.1:${backendPort};
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
  }`
}
