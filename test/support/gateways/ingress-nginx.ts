import { loadAll } from 'js-yaml'
import { example, type Gateway, substituted, timed, variantOf } from './gateway.ts'
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
  start: ({ edge, backend, edgeMayTake }, variant, owner) => {
    const settings = settingsOf(variantOf(timed(example('ingress-nginx/ingress.yaml'), edgeMayTake), variant))
    return runningNginx((port) => configuration(settings, port, edge, backend), owner)
  },
}

interface Settings {
  /** Of the controller. */
  readonly httpSnippet: string
  annotation(name: string): string
}

function settingsOf(example: string): Settings {
  const [configMap, ingress] = loadAll(example) as [
    { data: { 'http-snippet': string } },
    { metadata: { annotations: Record<string, string> } },
  ]
  const { annotations } = ingress.metadata
  return {
    httpSnippet: configMap.data['http-snippet'],
    annotation(name) {
      const value = annotations[`nginx.ingress.kubernetes.io/${name}`]
      if (value === undefined) throw new Error(`there is no annotation ${name}`)
      return value
    },
  }
}

function configuration({ httpSnippet, annotation }: Settings, port: number, edge: number | string, backend: number): string {
  return `
map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
upstream upstream_balancer { server 127.0.0.1:${backend}; keepalive 32; }
${substituted(httpSnippet, { 'edge.default.svc.cluster.local:8080': `127.0.0.1:${edge}` })}
server {
  listen 127.0.0.1:${port};
  location = /_external-auth {
    internal;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header X-Forwarded-Proto "";
    proxy_set_header Host ${new URL(annotation('auth-url')).host};
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
    ${annotation('auth-snippet')}
    set $target ${annotation('auth-url')};
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
