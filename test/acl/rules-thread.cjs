"use strict";
/** The other thread of the tests of rules. */
const { acl } = require("npurt/acl");
const { rt } = acl;

const equal = (found, wanted) => {
  if (found !== wanted) throw new Error(`found ${found}, not ${wanted}`);
};

module.exports = {
  /** Starts without an error, makes and clears its own. */
  ownErrors() {
    equal(rt.peek_at_last_error(0), 0);
    equal(acl.get_recent_err_msg(), null);
    equal(rt.set_device(99), 107001);
    equal(rt.peek_at_last_error(0), 107001);
    equal(rt.get_last_error(0), 107001);
    equal(rt.peek_at_last_error(0), 0);
  },
};
