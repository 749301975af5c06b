"""Code bases of others that are built on Apache Beam, whose own tests are run with Beam's runner and with HeadraceRunner."""
