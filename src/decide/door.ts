/** What asks: the label `door` of `edge_questions_total`. */
export type Door = 'decision' | 'forward_auth' | 'auth_request' | 'ext_authz' | 'ext_authz_grpc' | 'rate_limit' | 'proxy'
