"""Code bases of others that are built on Apache Beam, with Beam's runner and with HeadraceRunner."""
