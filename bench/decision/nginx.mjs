import { startNginxWith } from '../support/nginx.mjs'

/** nginx with one limit_req by a header. */
export function startNginx(file, limit) {
  return startNginxWith(file, 1024, (port) => http(port, limit))
}

// A `return` would answer before limit_req is asked; empty_gif is a content handler, and the cheapest there is. The zone
// has room for a million keys. A rate of one a second leaves them alive; the burst is the limit.
function http(port, limit) {
  return `
  limit_req_zone $http_x_api_key zone=keys:256m rate=1r/s;
  limit_req_status 429;
  server {
    listen 127.0.0.1:${port};
    location / {
      limit_req zone=keys burst=${limit} nodelay;
      empty_gif;
    }
  }`
}
