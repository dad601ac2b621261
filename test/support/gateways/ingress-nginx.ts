import { load } from 'js-yaml'
import { example, type Gateway, substituted, variantOf } from './gateway.ts'
import { NGINX, runningNginx } from './nginx.ts'

/** nginx as the controller of ingress-nginx configures it for the example's annotations: its auth-url in the shape that it gives it. */
export const INGRESS_NGINX: Gateway = {
  name: 'ingress-nginx',
  missing: NGINX.missing,
  door: 'auth_request',
  asked: ({ headers }) => {
    const [, host, uri] = /^https?:\/\/([^/]*)(.*)$/.exec(String(headers['x-original-url'])) ?? []
    return { method: headers['x-original-method']?.toString(), uri, host }
  },
  limits: { noDebugFields: true },
  start: ({ edge, backend }, variant, owner) => {
    const annotations = annotationsOf(variantOf(example('ingress-nginx/ingress.yaml'), variant))
    return runningNginx((port) => configuration(annotations, port, edge, backend), owner)
  },
}

function annotationsOf(ingress: string): (name: string) => string {
  const { metadata } = load(ingress) as { metadata: { annotations: Record<string, string> } }
  return (name) => {
    const value = metadata.annotations[`nginx.ingress.kubernetes.io/${name}`]
    if (value === undefined) throw new Error(`there is no annotation ${name}`)
    return value
  }
}

function configuration(annotation: (name: string) => string, port: number, edge: number | string, backend: number): string {
  const keepalive = annotation('auth-keepalive')
  const target = substituted(annotation('auth-url'), { 'edge.default.svc.cluster.local:8080': 'auth-upstream' })
  return `
map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
upstream upstream_balancer { server 127.0.0.1:${backend}; keepalive 32; }
upstream auth-upstream { server 127.0.0.1:${edge}; keepalive ${keepalive}; }
server {
  listen 127.0.0.1:${port};
  location = /_external-auth {
    internal;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header X-Forwarded-Proto "";
    proxy_set_header Host edge.default.svc.cluster.local;
    proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
    proxy_set_header X-Original-Method $request_method;
    proxy_set_header X-Sent-From "nginx-ingress-controller";
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Auth-Request-Redirect $request_uri;
    proxy_buffering ${annotation('proxy-buffering')};
    proxy_pass_request_headers on;
    client_max_body_size ${annotation('proxy-body-size')};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    ${annotation('auth-snippet')}
    set $target ${target};
    proxy_pass $target;
  }
  location / {
    set $best_http_host $http_host;
    auth_request /_external-auth;
    auth_request_set $auth_cookie $upstream_http_set_cookie;
    add_header Set-Cookie $auth_cookie;
    client_max_body_size ${annotation('proxy-body-size')};
    proxy_set_header Host $best_http_host;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_connect_timeout 5s;
    proxy_send_timeout 60s;
    proxy_read_timeout 60s;
    proxy_buffering ${annotation('proxy-buffering')};
    proxy_http_version 1.1;
    ${annotation('configuration-snippet')}
    proxy_pass http://upstream_balancer;
  }
  ${annotation('server-snippet')}
}
`
}
