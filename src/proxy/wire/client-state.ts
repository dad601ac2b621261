/** What a client's connection is about. */
export type ClientState =
  /** Nothing has come yet. */
  | 'silent'
  /** A part of a head has arrived. */
  | 'head'
  /** A request is under way: its body is not read to the end, or its response not written. */
  | 'busy'
  | 'idle'
  /** Nothing more is served, and what still comes is thrown away. */
  | 'closing'
  /** It is closed, or `node:http` has it. */
  | 'gone'
